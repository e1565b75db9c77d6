// Every transport of this build. To add a transport, add its file and a line in registry.cpp.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "host/memory.hpp"
#include "transport/transport.hpp"

namespace volley {

// Whether the message's bytes travel through MPI.
enum class ThroughMpi {
  no,
  yes,
  on_device_pointers,  // which crashes where MPI is not CUDA-aware: the front end tries it in a job of its own
};

// Whose runs have a transport.
enum class Tier {
  usual,  // everybody's
  extra,  // of those who name it, a part of its name, or `all`
  test,   // of those who name it; it breaks on purpose
};

// What is known of a transport before one is made.
struct TransportEntry {
  const char* name;
  const char* summary;  // what moves the bytes, for people
  ThroughMpi mpi;
  MemoryKind memory;  // where the message's buffers are
  Tier tier;
  bool halos;                            // carries halos too
  std::unique_ptr<Transport> (*make)();  // null where there is none
  const char* missing = "";              // and why there is none
};

[[nodiscard]] std::span<const TransportEntry> registry();

// The entry of that name, or null.
[[nodiscard]] const TransportEntry* find_transport(std::string_view name,
                                                   std::span<const TransportEntry> entries = registry());

}  // namespace volley
