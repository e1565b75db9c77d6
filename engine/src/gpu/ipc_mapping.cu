#include "gpu/ipc_mapping.cuh"

#include "gpu/driver_function.cuh"

namespace volley::gpu {

Block block_of(const std::byte* place) {
  // The runtime has no call for this; the 64-bit signature came with CUDA 3.2.
  static const auto address_range = driver_function<PFN_cuMemGetAddressRange_v3020>("cuMemGetAddressRange", 3020);
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  check_driver(address_range(&base, &bytes, reinterpret_cast<CUdeviceptr>(place)), "cuMemGetAddressRange");
  return {reinterpret_cast<std::byte*>(base), bytes};
}

}  // namespace volley::gpu
