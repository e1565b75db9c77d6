// A build without CUDA has no transport in device memory, and nobody asks for this.
#include "base/errors.hpp"
#include "jacobi/worker.hpp"

namespace volley::jacobi {

std::unique_ptr<Worker> make_device_worker(const Context&, const JacobiOptions&, const Grid&, Halos&) {
  throw UnsupportedError("this engine was built without CUDA");
}

}  // namespace volley::jacobi
