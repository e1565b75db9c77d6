// The arena of a kind of memory.
#pragma once

#include <memory>

#include "gpu/gpu.hpp"
#include "host/memory.hpp"

namespace volley {

// Null for MemoryKind::none.
[[nodiscard]] inline std::unique_ptr<Memory> make_memory(MemoryKind kind) {
  if (kind == MemoryKind::none) return nullptr;
  return kind == MemoryKind::host ? make_host_memory() : gpu::make_memory();
}

}  // namespace volley
