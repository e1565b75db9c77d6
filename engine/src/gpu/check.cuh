// Errors of CUDA as exceptions (see base/errors.hpp), and CUDA handles that destroy themselves.
#pragma once

#include <cuda_runtime.h>

#include <memory>
#include <source_location>
#include <stdexcept>
#include <string>

#include "base/errors.hpp"

namespace volley::gpu {

inline void check(cudaError_t status, const char* call, std::source_location where = std::source_location::current()) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // resets the error, so that the next check of a kernel launch does not find it
  throw std::runtime_error(std::string(call) + " failed: " + cudaGetErrorString(status) + " (" +
                           cudaGetErrorName(status) + ", " + in_sources(where) + ")");
}

// Calls the function of CUDA that frees a handle.
template <auto function>
struct Destroy {
  template <class Object>
  void operator()(Object* handle) const noexcept {
    function(handle);
  }
};

template <class Object, auto function>
using Owned = std::unique_ptr<Object, Destroy<function>>;

}  // namespace volley::gpu

#define VOLLEY_CUDA_CHECK(call) ::volley::gpu::check((call), #call)
