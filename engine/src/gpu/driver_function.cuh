// Functions of the driver. The engine is not linked with libcuda, which is absent on machines without a driver. The
// runtime, which has opened libcuda, returns pointers to its functions.
#pragma once

#include <cudaTypedefs.h>

#include <stdexcept>
#include <string>

#include "gpu/check.cuh"

namespace volley::gpu {

// The driver's function of that name, with the signature that it has `since_cuda`: 1000 * major + 10 * minor.
template <class Function>
[[nodiscard]] Function driver_function(const char* name, unsigned since_cuda) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  VOLLEY_CUDA_CHECK(cudaGetDriverEntryPointByVersion(name, &function, since_cuda, cudaEnableDefault, &found));
  if (found != cudaDriverEntryPointSuccess) throw std::runtime_error(std::string("the NVIDIA driver has no ") + name);
  return reinterpret_cast<Function>(function);
}

inline void check_driver(CUresult status, const char* call) {
  if (status == CUDA_SUCCESS) return;
  throw std::runtime_error(std::string(call) + " failed with error " + std::to_string(static_cast<int>(status)));
}

}  // namespace volley::gpu
