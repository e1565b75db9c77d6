// Every transport of this build. To add a transport, add its file and a line in registry.cpp.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "host/memory.hpp"
#include "transport/transport.hpp"

namespace volley {

// What is known of a transport before one is made.
struct TransportEntry {
  const char* name;
  const char* summary;  // what moves the bytes, for people
  bool mpi;             // the message's bytes travel through MPI
  MemoryKind memory;    // where the message's buffers are
  bool test;            // breaks on purpose; used only when a user names it
  bool halos;           // carries halos too
  std::unique_ptr<Transport> (*make)();
};

[[nodiscard]] std::span<const TransportEntry> registry();

// The entry of that name, or null.
[[nodiscard]] const TransportEntry* find_transport(std::string_view name,
                                                   std::span<const TransportEntry> entries = registry());

}  // namespace volley
