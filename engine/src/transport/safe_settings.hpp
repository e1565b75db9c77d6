// Variables of libraries that this engine sets before MPI starts, unless the user has set them.
#pragma once

#include <cstdlib>
#include <span>

#include "record/json.hpp"

namespace volley {

struct SafeSetting {
  const char* name;
  const char* value;
};

// NVLink multicast stays off. NCCL reads this once in a process, when it makes the first communicator.
inline constexpr SafeSetting nccl_settings[] = {{"NCCL_NVLS_ENABLE", "0"}};

// NVLink multicast stays off, no network is looked for, and no thread of NVSHMEM polls on the core of this rank, which
// would disturb all other transports.
inline constexpr SafeSetting nvshmem_settings[] = {
    {"NVSHMEM_DISABLE_NVLS", "1"}, {"NVSHMEM_REMOTE_TRANSPORT", "none"}, {"NVSHMEM_DISABLE_LOCAL_ONLY_PROXY", "1"}};

// Sets all of them. Before MPI_Init and before the first context on a device: both start threads, and setenv may move
// what getenv of another thread is reading.
inline void apply_safe_settings() {
  const auto apply = [](std::span<const SafeSetting> settings) {
    for (const auto& [name, value] : settings) setenv(name, value, /*overwrite*/ 0);
  };
  apply(nccl_settings);
  apply(nvshmem_settings);
}

// Adds what is set to the facts of a transport.
inline void add_settings(Json& facts, std::span<const SafeSetting> settings) {
  for (const auto& [name, value] : settings) {
    const char* const set = std::getenv(name);
    facts[name] = set == nullptr ? "" : set;
  }
}

}  // namespace volley
