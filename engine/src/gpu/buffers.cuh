// Memory that frees itself: on the current device, and page-locked memory of the host.
#pragma once

#include <cstddef>

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
  Owned<std::byte, cudaFree> handle_;
};

// Page-locked memory of the host. Copy engines access it directly.
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
  Owned<std::byte, cudaFreeHost> handle_;
};

// Page-locks host memory for the current device. The memory must outlive the registration.
class Registration {
 public:
  Registration() = default;
  Registration(std::byte* memory, std::size_t bytes) {
    VOLLEY_CUDA_CHECK(cudaHostRegister(memory, bytes, cudaHostRegisterDefault));
    handle_.reset(memory);
  }

 private:
  Owned<std::byte, cudaHostUnregister> handle_;
};

}  // namespace volley::gpu
