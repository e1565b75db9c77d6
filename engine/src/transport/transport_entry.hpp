// A transport's line in the registry: what is known of it without one being made.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <string_view>

#include "host/memory.hpp"

namespace volley {

class Transport;

struct TransportEntry {
  const char* name;
  const char* summary;  // what moves the bytes, for people
  bool mpi;             // the message's bytes travel through MPI
  MemoryKind memory;    // where the message's buffers are
  bool test;            // breaks on purpose; used only when asked for by name
  bool halos;           // carries halos too
  std::unique_ptr<Transport> (*make)();
};

// The entry of that name, or null.
[[nodiscard]] inline const TransportEntry* find_transport(std::span<const TransportEntry> entries,
                                                          std::string_view name) {
  const auto found = std::find_if(entries.begin(), entries.end(), [&](const auto& each) { return each.name == name; });
  return found == entries.end() ? nullptr : &*found;
}

}  // namespace volley
