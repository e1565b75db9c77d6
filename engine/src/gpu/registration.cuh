// Host memory that is page-locked for the current device as long as this lives; it must outlive the registration.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <memory>

#include "gpu/check.cuh"

namespace volley::gpu {

class Registration {
 public:
  Registration() = default;
  Registration(std::byte* memory, std::size_t bytes) {
    VOLLEY_CUDA_CHECK(cudaHostRegister(memory, bytes, cudaHostRegisterDefault));
    handle_.reset(memory);
  }

 private:
  struct Unregister {
    void operator()(std::byte* memory) const noexcept { cudaHostUnregister(memory); }
  };
  std::unique_ptr<std::byte, Unregister> handle_;
};

}  // namespace volley::gpu
