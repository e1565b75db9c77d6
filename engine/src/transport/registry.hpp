// Every transport that this build carries. A new one is its own file and one line in registry.cpp.
#pragma once

#include <span>
#include <string_view>

#include "transport/transport.hpp"
#include "transport/transport_entry.hpp"

namespace volley {

[[nodiscard]] std::span<const TransportEntry> registry();

// The entry of that name, or null.
[[nodiscard]] inline const TransportEntry* find_transport(std::string_view name) {
  return find_transport(registry(), name);
}

}  // namespace volley
