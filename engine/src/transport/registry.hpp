// Every transport of this build. To add a transport, add its file and a line in registry.cpp.
#pragma once

#include "faults/faults.hpp"
#include "transport/transport.hpp"

namespace volley {

enum class ThroughMpi {
  no,
  yes,
  on_device_pointers,  // which crashes where MPI is not CUDA-aware: the front end tries it in a job of its own
};

enum class Tier {
  usual,  // everybody's
  extra,  // of those who name it, a part of its name, or `all`
};

struct TransportEntry {
  std::string name;
  std::string summary;  // what moves the bytes, for people
  ThroughMpi mpi;
  MemoryKind memory;  // where the message's buffers are
  Tier tier;
  bool halos;                                        // carries halos too
  std::function<std::unique_ptr<Transport>()> make;  // null where there is none
  std::string missing = "";                          // and why there is none
  std::string collectives = "";                      // what moves the bytes of those; empty where it carries none
  Fault fault = Fault::none;                         // on purpose
};

[[nodiscard]] std::span<const TransportEntry> registry();

// NAME of NAME or NAME+FAULT.
[[nodiscard]] inline std::string_view without_fault(std::string_view name) { return name.substr(0, name.find('+')); }

// The entry of that name, or null. NAME+FAULT is the transport NAME with a fault of faults/faults.hpp.
[[nodiscard]] const TransportEntry* find_transport(std::string_view name);

// A transport with a fault. `memory`: where its messages are.
[[nodiscard]] std::unique_ptr<Transport> with_fault(std::unique_ptr<Transport> transport, Fault fault,
                                                    MemoryKind memory);

// Why these world ranks cannot use a transport, as far as that is known without asking it: they lack devices, the plan
// excludes it, it does not carry what is asked for, or there is none. Empty on all these ranks or on none; the words
// differ where they see other devices.
[[nodiscard]] std::string ruled_out(const Context& context, const std::vector<int>& ranks, const Plan& plan,
                                    const TransportEntry& entry, bool collectives = false);

// Bytes of `memory` that each rank of `comm` may allocate. Ranks that share a memory (of a device or of a node) get
// equal parts of it; all ranks get the smallest part. `memory` is null for MemoryKind::none. Collective over `comm`.
[[nodiscard]] std::uint64_t memory_share(const Context& context, MemoryKind kind, const Memory* memory, MPI_Comm comm);

// The largest number of bytes that the two buffers for messages of this length take, with the space around a message.
[[nodiscard]] std::uint64_t bytes_of_buffers(std::uint64_t message_bytes);

}  // namespace volley
