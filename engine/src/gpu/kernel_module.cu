#include "gpu/driver_function.cuh"
#include "gpu/kernel_module.cuh"

namespace volley::gpu {

ModuleHandle module_containing(const void* kernel) {
  static const auto module_of_function = driver_function<PFN_cuFuncGetModule_v11000>("cuFuncGetModule", 11000);
  cudaFunction_t function = nullptr;
  VOLLEY_CUDA_CHECK(cudaGetFuncBySymbol(&function, kernel));
  CUmodule found = nullptr;
  check_driver(module_of_function(&found, function), "cuFuncGetModule");
  return found;
}

}  // namespace volley::gpu
