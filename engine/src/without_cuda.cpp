// What a build without CUDA has in place of the .cu files. Its transports in device memory are unavailable and it sees
// no GPU, so that none of these is called.
#include "benchmark/gpu_matrix/section.hpp"
#include "benchmark/overlap/overlap.hpp"
#include "jacobi/solver.hpp"

namespace volley {

constexpr const char* reason = "this engine was built without CUDA";

std::unique_ptr<overlap::Computation> overlap::make_device_computation(Limit) { throw UnsupportedError(reason); }

std::unique_ptr<jacobi::Solver> jacobi::make_device_solver(const Context&, const JacobiOptions&, const Grid&, Halos&) {
  throw UnsupportedError(reason);
}

Exit gpu_matrix::measure(const Run&, const GpuMatrixOptions&) { throw UnsupportedError(reason); }

}  // namespace volley
