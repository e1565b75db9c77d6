// Kernel launches. A plain launch is `kernel<<<...>>>(...)` followed by check_launch().
#pragma once

#include "gpu/runtime.hpp"

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

// The largest number of blocks of `threads` threads in one cluster of the kernel; 1 where the current device has no
// clusters, or the kernel has been compiled for devices that have none.
template <class... Parameters>
[[nodiscard]] unsigned max_cluster_blocks(void (*kernel)(Parameters...), unsigned threads) {
  constexpr int first_with_clusters = 90;  // compute capability 9.0
  int device = 0;
  int launches_clusters = 0;
  cudaFuncAttributes attributes{};
  VOLLEY_CUDA_CHECK(cudaGetDevice(&device));
  VOLLEY_CUDA_CHECK(cudaDeviceGetAttribute(&launches_clusters, cudaDevAttrClusterLaunch, device));
  VOLLEY_CUDA_CHECK(cudaFuncGetAttributes(&attributes, kernel));
  if (launches_clusters == 0 || attributes.ptxVersion < first_with_clusters) return 1;
  // Without this there are at most 8 blocks in a cluster, as many as on every device.
  VOLLEY_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(16);
  config.blockDim = dim3(threads);
  int blocks = 1;
  VOLLEY_CUDA_CHECK(cudaOccupancyMaxPotentialClusterSize(&blocks, kernel, &config));
  return static_cast<unsigned>(blocks);
}

// Launches one cluster of `blocks` blocks: the device starts all of them together.
template <class Parameter>
void launch_cluster(void (*kernel)(Parameter), unsigned blocks, unsigned threads, StreamHandle cuda_stream,
                    const Parameter& parameter) {
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = blocks;
  cluster.val.clusterDim.y = 1;
  cluster.val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(threads);
  config.stream = cuda_stream;
  config.attrs = &cluster;
  config.numAttrs = 1;
  VOLLEY_CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, parameter));
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
