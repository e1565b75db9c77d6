#include "gpu/cuda_driver.cuh"

#include <cudaTypedefs.h>

#include <stdexcept>
#include <string>

#include "gpu/check.cuh"

namespace volley::gpu {

namespace {

// The driver's function of that name, with the signature that it has `since_cuda`: 1000 * major + 10 * minor.
template <class Function>
Function driver_function(const char* name, unsigned since_cuda) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
  VOLLEY_CUDA_CHECK(cudaGetDriverEntryPointByVersion(name, &function, since_cuda, cudaEnableDefault, &found));
#else  // the signature is the one of the toolkit, which is the same for these functions
  static_cast<void>(since_cuda);
  VOLLEY_CUDA_CHECK(cudaGetDriverEntryPoint(name, &function, cudaEnableDefault, &found));
#endif
  if (found != cudaDriverEntryPointSuccess) throw std::runtime_error(std::string("the NVIDIA driver has no ") + name);
  return reinterpret_cast<Function>(function);
}

void check_driver(CUresult status, const char* call) {
  if (status == CUDA_SUCCESS) return;
  throw std::runtime_error(std::string(call) + " failed with error " + std::to_string(static_cast<int>(status)));
}

}  // namespace

Block block_of(const std::byte* place) {
  // The 64-bit signature came with CUDA 3.2.
  static const auto address_range = driver_function<PFN_cuMemGetAddressRange_v3020>("cuMemGetAddressRange", 3020);
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  check_driver(address_range(&base, &bytes, reinterpret_cast<CUdeviceptr>(place)), "cuMemGetAddressRange");
  return {reinterpret_cast<std::byte*>(base), bytes};
}

ModuleHandle module_containing(const void* kernel) {
  static const auto module_of_function = driver_function<PFN_cuFuncGetModule_v11000>("cuFuncGetModule", 11000);
  cudaFunction_t function = nullptr;
  VOLLEY_CUDA_CHECK(cudaGetFuncBySymbol(&function, kernel));
  CUmodule found = nullptr;
  check_driver(module_of_function(&found, function), "cuFuncGetModule");
  return found;
}

}  // namespace volley::gpu
