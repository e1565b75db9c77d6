// What all transports need of the ranks that use them, whatever moves their bytes: devices and memory.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <string>
#include <vector>

#include "group/context.hpp"
#include "host/memory.hpp"

namespace volley {

// Why these world ranks cannot have messages in device memory; empty when they can. The same on all of them, but for
// what CUDA says where this rank sees no device.
[[nodiscard]] std::string without_devices(const Context& context, const std::vector<int>& ranks, bool share_device);

// Bytes of `memory` that each rank of `comm` may take: the least of all ranks', when the ranks that share a memory (a
// device's, or a node's) take the same. `memory` is null for MemoryKind::none. Collective over `comm`.
[[nodiscard]] std::uint64_t memory_share(const Context& context, MemoryKind kind, const Memory* memory, MPI_Comm comm);

// Bytes that both buffers for messages of this length take at most, with what lies around a message.
[[nodiscard]] std::uint64_t bytes_of_buffers(std::uint64_t message_bytes);

}  // namespace volley
