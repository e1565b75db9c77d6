// What the engine asks of CUDA outside the transports. gpu/*.cu answer where the build has CUDA, gpu/absent.cpp where
// it has not; no other file needs to know which.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace volley {
class Memory;
}

namespace volley::gpu {

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

// Device memory of the current device, filled and checked by kernels there; see memory.hpp.
[[nodiscard]] std::unique_ptr<Memory> make_memory();

}  // namespace volley::gpu
