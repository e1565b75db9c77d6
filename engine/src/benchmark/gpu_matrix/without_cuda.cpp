// A build without CUDA.
#include "base/errors.hpp"
#include "benchmark/gpu_matrix/gpu_set.hpp"

namespace volley::gpu_matrix {

std::unique_ptr<GpuSet> make_gpu_set(const std::vector<int>&, std::uint64_t, std::uint64_t,
                                     std::chrono::duration<double>) {
  throw UnsupportedError("this engine was built without CUDA");
}

}  // namespace volley::gpu_matrix
