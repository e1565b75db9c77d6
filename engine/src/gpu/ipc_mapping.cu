#include "gpu/ipc_mapping.cuh"

#include <cudaTypedefs.h>

#include <cstdint>
#include <stdexcept>

namespace volley::gpu {

namespace {

// The runtime has no call for this, and the engine is not linked with libcuda, which is absent on machines without a
// driver. The runtime, which has opened libcuda, returns pointers to its functions.
PFN_cuMemGetAddressRange_v3020 address_range_function() {
  constexpr unsigned since_cuda = 3020;  // the 64-bit signature came with CUDA 3.2
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  VOLLEY_CUDA_CHECK(
      cudaGetDriverEntryPointByVersion("cuMemGetAddressRange", &function, since_cuda, cudaEnableDefault, &found));
  if (found != cudaDriverEntryPointSuccess) throw std::runtime_error("the NVIDIA driver has no cuMemGetAddressRange");
  return reinterpret_cast<PFN_cuMemGetAddressRange_v3020>(function);
}

}  // namespace

Block block_of(const std::byte* place) {
  static const auto address_range = address_range_function();
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  const CUresult status = address_range(&base, &bytes, reinterpret_cast<CUdeviceptr>(place));
  if (status != CUDA_SUCCESS) {
    throw std::runtime_error("cuMemGetAddressRange failed with error " + std::to_string(static_cast<int>(status)));
  }
  return {reinterpret_cast<std::byte*>(base), bytes};
}

}  // namespace volley::gpu
