// CUDA for files that any C++ compiler can compile. Defined in gpu/*.cu in a build with CUDA, else in
// gpu/without_cuda.cpp. Only this folder calls CUDA's host interface; kernels are in the folders that use them.
#pragma once

#include <functional>

#include "messages/memory.hpp"

struct CUstream_st;

namespace volley::gpu {

// CUDA's type of a stream; null is the default stream. gpu::Stream owns one (gpu/runtime.hpp).
using StreamHandle = CUstream_st*;

struct Device {
  int index = 0;
  std::string name;
  std::string uuid;                // GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx
  std::string pci;                 // domain:bus:device.function, lower case as in /sys
  std::string compute_capability;  // e.g. "9.0"
  std::uint64_t memory_bytes = 0;
};

// How many devices this process can use; if none, why not (a missing driver is a reason, not an error).
struct Presence {
  int devices = 0;
  std::string reason;
};

[[nodiscard]] Presence presence();

// Facts of one device. Does not create a context on it.
[[nodiscard]] Device describe(int index);

// Makes `index` the current device of the calling thread.
void select(int index);

// Allocates this many bytes of device memory, which are freed with the last copy of the pointer. Throws if it cannot.
using Allocate = std::function<std::shared_ptr<std::byte>(std::size_t bytes)>;

// Device memory of the current device, filled and checked by kernels there; see messages/memory.hpp. By default of
// cudaMalloc.
[[nodiscard]] std::unique_ptr<Memory> make_memory(Allocate allocate = {});

// The most bytes that a buffer of make_memory() takes besides the largest message: a page before it, a page after it.
constexpr std::uint64_t overhead_bytes_per_buffer = std::uint64_t{4} << 20;

// --- only in builds with CUDA ---

// Bytes that can still be allocated on the current device. Creates its context.
[[nodiscard]] std::uint64_t free_memory_bytes();

[[nodiscard]] unsigned multiprocessors(int index);

// Whether kernels of the device `from` can access memory of the device `to`.
[[nodiscard]] bool can_access_peer(int from, int to);

// Enables access of the current device to memory of the device `to`; false if CUDA refuses.
[[nodiscard]] bool enable_peer_access(int to);

// CUDA's error if this process can no longer use a device; empty if it can.
[[nodiscard]] std::string device_error(int index);

}  // namespace volley::gpu

namespace volley {

// The arena of a kind of memory. Null for MemoryKind::none.
[[nodiscard]] inline std::unique_ptr<Memory> make_memory(MemoryKind kind) {
  if (kind == MemoryKind::none) return nullptr;
  return kind == MemoryKind::host ? make_host_memory() : gpu::make_memory();
}

}  // namespace volley
