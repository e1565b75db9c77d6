// A build without CUDA has no transport in device memory, so that this is never called.
#include "base/errors.hpp"
#include "jacobi/solver.hpp"

namespace volley::jacobi {

std::unique_ptr<Solver> make_device_solver(const Context&, const JacobiOptions&, const Grid&, Halos&) {
  throw UnsupportedError("this engine was built without CUDA");
}

}  // namespace volley::jacobi
