// Page-locked host memory that frees itself: copy engines reach it without a detour.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <memory>

#include "gpu/check.cuh"

namespace volley::gpu {

class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  explicit PinnedBuffer(std::size_t bytes) {
    void* data = nullptr;
    VOLLEY_CUDA_CHECK(cudaHostAlloc(&data, bytes, cudaHostAllocDefault));
    handle_.reset(static_cast<std::byte*>(data));
  }
  [[nodiscard]] std::byte* data() const noexcept { return handle_.get(); }

 private:
  struct Free {
    void operator()(std::byte* data) const noexcept { cudaFreeHost(data); }
  };
  std::unique_ptr<std::byte, Free> handle_;
};

}  // namespace volley::gpu
