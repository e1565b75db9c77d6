// The arena of a kind of memory.
#pragma once

#include <memory>

#include "host/memory.hpp"

namespace volley {

// Null for MemoryKind::none.
[[nodiscard]] std::unique_ptr<Memory> make_memory(MemoryKind kind);

}  // namespace volley
