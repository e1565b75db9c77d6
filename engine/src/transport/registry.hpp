// Every transport of this build. To add a transport, add its file and a line in registry.cpp.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "host/memory.hpp"
#include "transport/faulty_transport.hpp"
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
};

// What is known of a transport before one is made.
struct TransportEntry {
  const char* name;
  const char* summary;  // what moves the bytes, for people
  ThroughMpi mpi;
  MemoryKind memory;  // where the message's buffers are
  Tier tier;
  bool halos;                                        // carries halos too
  std::function<std::unique_ptr<Transport>()> make;  // null where there is none
  const char* missing = "";                          // and why there is none
  Fault fault = Fault::none;                         // on purpose
};

[[nodiscard]] std::span<const TransportEntry> registry();

// The entry of that name, or null. NAME+FAULT is the transport NAME with a fault of measure/faults.hpp, to test what
// volley makes of it.
[[nodiscard]] const TransportEntry* find_transport(std::string_view name);

// The same among other entries. `decorate` gives the fault to a transport that is made; null: whoever has it made does.
using FaultDecorator = std::unique_ptr<Transport> (*)(std::unique_ptr<Transport>, Fault, MemoryKind);
[[nodiscard]] const TransportEntry* find_among(std::span<const TransportEntry> entries, std::string_view name,
                                               FaultDecorator decorate);

}  // namespace volley
