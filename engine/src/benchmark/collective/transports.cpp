#include <algorithm>
#include <array>

#include "benchmark/collective/mpi_collectives.hpp"
#include "transport/registry.hpp"

namespace volley {

// Each transport's own file defines its maker.
using Maker = std::unique_ptr<Transport>();
Maker make_staged_collectives, make_nccl_collectives, make_nccl_allocated_collectives;

// `host` and `aware`: MPI's collectives, on host memory and on device memory.
std::unique_ptr<Transport> make_mpi_collectives() { return std::make_unique<MpiCollectives>(); }

namespace {

struct CollectiveEntry {
  std::string_view name;
  const char* summary;
  Maker* make;
};

// name, what moves the bytes, maker
constexpr std::array entries{
    CollectiveEntry{"host", "MPI, host memory", make_mpi_collectives},
    CollectiveEntry{"staged/pinned", "GPU - host - MPI - host - GPU, pinned memory, one after the other",
                    make_staged_collectives},
    CollectiveEntry{"aware", "MPI on device pointers, CUDA-aware", make_mpi_collectives},
    CollectiveEntry{"nccl", "NCCL's collectives", make_nccl_collectives},
    CollectiveEntry{"nccl/allocated", "NCCL's collectives, buffers from ncclMemAlloc", make_nccl_allocated_collectives},
};

}  // namespace

const TransportEntry* find_collective_transport(std::string_view name) {
  static const std::vector<TransportEntry> all = [] {
    std::vector<TransportEntry> made(registry().begin(), registry().end());
    for (auto& entry : made) {
      const auto found = std::ranges::find(entries, entry.name, &CollectiveEntry::name);
      if (found == entries.end()) {
        entry.make = nullptr;
        entry.missing = "it sends between two ranks; collectives run through MPI, NCCL and pinned host memory";
        continue;
      }
      entry.summary = found->summary;
      entry.make = found->make;
    }
    return made;
  }();
  return find_among(all, name, nullptr);
}

}  // namespace volley
