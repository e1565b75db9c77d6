// Device memory of the current device that frees itself.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <memory>

#include "gpu/check.cuh"

namespace volley::gpu {

class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  explicit DeviceBuffer(std::size_t bytes) {
    void* data = nullptr;
    VOLLEY_CUDA_CHECK(cudaMalloc(&data, bytes));
    handle_.reset(static_cast<std::byte*>(data));
  }
  [[nodiscard]] std::byte* data() const noexcept { return handle_.get(); }

 private:
  struct Free {
    void operator()(std::byte* data) const noexcept { cudaFree(data); }
  };
  std::unique_ptr<std::byte, Free> handle_;
};

}  // namespace volley::gpu
