// Every transport that this build carries. A new one is one line in registry.cpp.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "halo_link.hpp"
#include "transport.hpp"

namespace volley {

struct TransportEntry {
  const char* name;
  const char* summary;  // what moves the bytes, for people
  bool mpi;             // the message's bytes travel through MPI
  MemoryKind memory;    // where the message's buffers are
  bool test;            // breaks on purpose; used only when asked for by name
  std::unique_ptr<Transport> (*make)();
  std::unique_ptr<HaloLink> (*make_halo)() = nullptr;  // null: it carries no halos
};

[[nodiscard]] std::span<const TransportEntry> registry();

// The entry of that name, or null.
[[nodiscard]] const TransportEntry* find_transport(std::string_view name);

}  // namespace volley
