// What only the driver tells. The engine is not linked with libcuda, which is absent on machines without a driver. The
// runtime, which has opened libcuda, returns pointers to its functions.
#pragma once

#include <cstddef>

struct CUmod_st;

namespace volley::gpu {

// An allocation of device memory: what cudaMalloc returned, and its length.
struct Block {
  std::byte* base = nullptr;
  std::size_t bytes = 0;
  [[nodiscard]] bool holds(const std::byte* place) const { return place >= base && place < base + bytes; }
};

// The allocation that contains `place`. Handles of CUDA IPC name whole allocations.
[[nodiscard]] Block block_of(const std::byte* place);

// The driver's handle of a module: what it loads of a program, the kernels and variables of one source file.
using ModuleHandle = CUmod_st*;

// The module that contains the kernel.
[[nodiscard]] ModuleHandle module_containing(const void* kernel);

}  // namespace volley::gpu
