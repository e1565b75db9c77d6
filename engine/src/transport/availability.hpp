// What every transport needs from the ranks that use it: devices and memory.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <string>
#include <vector>

#include "group/context.hpp"
#include "host/memory.hpp"
#include "record/plan.hpp"
#include "transport/registry.hpp"

namespace volley {

// Why these world ranks cannot use a transport: they lack devices for its messages, the plan excludes it, or there is
// none. Empty if nothing of that is the case; then the transport itself is asked. Empty on all these ranks or on none;
// the words differ where they do not see the same devices.
[[nodiscard]] std::string ruled_out(const Context& context, const std::vector<int>& ranks, const Plan& plan,
                                    const TransportEntry& entry);

// Bytes of `memory` that each rank of `comm` may allocate. Ranks that share a memory (of a device or of a node) get
// equal parts of it; all ranks get the smallest part. `memory` is null for MemoryKind::none. Collective over `comm`.
[[nodiscard]] std::uint64_t memory_share(const Context& context, MemoryKind kind, const Memory* memory, MPI_Comm comm);

// The largest number of bytes that the two buffers for messages of this length take, with the space around a message.
[[nodiscard]] std::uint64_t bytes_of_buffers(std::uint64_t message_bytes);

}  // namespace volley
