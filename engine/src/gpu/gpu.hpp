// What the engine asks of CUDA in files that any C++ compiler reads. gpu/*.cu answer where the build has CUDA,
// gpu/without_cuda.cpp where it has not. This folder alone calls CUDA's host interface; kernels stand where they are
// used.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

struct CUstream_st;

namespace volley {
class Memory;
}

namespace volley::gpu {

// A CUDA Stream as CUDA names it; null: the default Stream. Its owner is gpu::Stream (gpu/streams.cuh).
using StreamHandle = CUstream_st*;

struct Device {
  int index = 0;
  std::string name;
  std::string uuid;                // GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx
  std::string pci;                 // domain:bus:device.function, lower case as in /sys
  std::string compute_capability;  // e.g. "9.0"
  std::uint64_t memory_bytes = 0;
};

// How many devices this process can use; when none, why not (a missing driver is a reason, not an error).
struct Presence {
  int devices = 0;
  std::string reason;
};

[[nodiscard]] Presence presence();

// Facts of one device. Does not create a context on it.
[[nodiscard]] Device describe(int index);

// Makes `index` the current device of the calling thread.
void select(int index);

// Device memory of the current device, filled and checked by kernels there; see host/memory.hpp.
[[nodiscard]] std::unique_ptr<Memory> make_memory();

// What a buffer of make_memory() takes beyond the largest message, at most: a page before it, a page behind it.
constexpr std::uint64_t overhead_bytes_per_buffer = std::uint64_t{4} << 20;

// --- only in builds with CUDA ---

// Bytes that can still be allocated on the current device. Creates its context.
[[nodiscard]] std::uint64_t free_memory_bytes();

[[nodiscard]] unsigned multiprocessors(int index);

// Whether the current device can map host memory that was allocated elsewhere; see Registration.
[[nodiscard]] bool can_register_host_memory();

// Whether kernels of the device `from` can access memory of the device `to`.
[[nodiscard]] bool can_access_peer(int from, int to);

// Switches on the current device's access to memory of the device `to`; false where CUDA refuses.
[[nodiscard]] bool enable_peer_access(int to);

// Forgets an error that a call has returned already, so that the next check does not find it again.
void clear_error();

// CUDA's error where a device can no longer be used by this process; empty while it can.
[[nodiscard]] std::string device_error(int index);

}  // namespace volley::gpu
