// Copies by the copy engines, and waiting for a device. Inline: several are called inside timed regions.
#pragma once

#include <cstddef>

#include "gpu/check.cuh"
#include "gpu/gpu.hpp"

namespace volley::gpu {

// --- blocking, on the default stream ---

inline void copy_to_host(void* host, const void* device, std::size_t bytes) {
  VOLLEY_CUDA_CHECK(cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost));
}

// From pageable memory this may return as soon as the driver has the bytes, before they are on the device
// (CUDA Runtime API, "API synchronization behavior"); synchronize_default_stream() waits for them.
inline void copy_to_device(void* device, const void* host, std::size_t bytes) {
  VOLLEY_CUDA_CHECK(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice));
}

// Copies `count` elements. On the device each element is `pitch_bytes` behind the one before.
inline void copy_column_to_device(void* device, std::size_t pitch_bytes, const void* host, std::size_t element_bytes,
                                  std::size_t count) {
  VOLLEY_CUDA_CHECK(
      cudaMemcpy2D(device, pitch_bytes, host, element_bytes, element_bytes, count, cudaMemcpyHostToDevice));
}

// Between any two places; complete at the end.
inline void copy(void* to, const void* from, std::size_t bytes) {
  VOLLEY_CUDA_CHECK(cudaMemcpy(to, from, bytes, cudaMemcpyDefault));
  VOLLEY_CUDA_CHECK(cudaStreamSynchronize(nullptr));
}

inline void zero(void* device, std::size_t bytes) { VOLLEY_CUDA_CHECK(cudaMemset(device, 0, bytes)); }

// --- enqueued on a stream ---

inline void copy_to_host_async(void* host, const void* device, std::size_t bytes, StreamHandle cuda_stream) {
  VOLLEY_CUDA_CHECK(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, cuda_stream));
}

inline void copy_to_device_async(void* device, const void* host, std::size_t bytes, StreamHandle cuda_stream) {
  VOLLEY_CUDA_CHECK(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, cuda_stream));
}

// Within a device, or to memory of another device that is mapped here.
inline void copy_on_device_async(void* to, const void* from, std::size_t bytes, StreamHandle cuda_stream) {
  VOLLEY_CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, cuda_stream));
}

// Between any two places; CUDA finds out where they are.
inline void copy_async(void* to, const void* from, std::size_t bytes, StreamHandle cuda_stream) {
  VOLLEY_CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, cuda_stream));
}

// Between two devices; through the host if there is no peer access.
inline void copy_peer_async(void* to, int to_device, const void* from, int from_device, std::size_t bytes,
                            StreamHandle cuda_stream) {
  VOLLEY_CUDA_CHECK(cudaMemcpyPeerAsync(to, to_device, from, from_device, bytes, cuda_stream));
}

// --- waiting ---

inline void synchronize() { VOLLEY_CUDA_CHECK(cudaDeviceSynchronize()); }
inline void synchronize_default_stream() { VOLLEY_CUDA_CHECK(cudaStreamSynchronize(nullptr)); }

}  // namespace volley::gpu
