// Kernel launches. A plain launch is `kernel<<<...>>>(...)` followed by check_launch().
#pragma once

#include "gpu/check.cuh"
#include "gpu/gpu.hpp"

namespace volley::gpu {

inline void check_launch(std::source_location where = std::source_location::current()) {
  check(cudaGetLastError(), "a kernel launch", where);
}

// Blocks of `threads` threads that the current device can hold at once.
template <class... Parameters>
[[nodiscard]] unsigned resident_blocks(void (*kernel)(Parameters...), unsigned threads) {
  int device = 0;
  int blocks = 0;
  VOLLEY_CUDA_CHECK(cudaGetDevice(&device));
  VOLLEY_CUDA_CHECK(
      cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, static_cast<int>(threads), /*shared bytes*/ 0));
  return static_cast<unsigned>(blocks) * multiprocessors(device);
}

// The driver starts all blocks together, or reports that it cannot.
template <class Parameter>
void launch_together(void (*kernel)(Parameter), unsigned blocks, unsigned threads, StreamHandle cuda_stream,
                     Parameter parameter) {
  void* arguments[] = {&parameter};
  VOLLEY_CUDA_CHECK(
      cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(kernel), blocks, threads, arguments, 0, cuda_stream));
}

}  // namespace volley::gpu
