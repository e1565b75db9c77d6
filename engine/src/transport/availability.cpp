#include "transport/availability.hpp"

#include <algorithm>
#include <limits>

#include "mpi/check.hpp"

namespace volley {

namespace {

constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();

// The number of ranks that share this rank's memory of that kind, this rank included.
std::uint64_t sharers(const Context& context, MemoryKind kind) {
  if (kind == MemoryKind::host) return static_cast<std::uint64_t>(context.local_size);
  const auto on_my_device = [&](const RankFacts& other) { return same_device(context.facts(context.rank), other); };
  return static_cast<std::uint64_t>(std::count_if(context.ranks.begin(), context.ranks.end(), on_my_device));
}

// Why these ranks cannot have messages in device memory; empty when they can.
std::string without_devices(const Context& context, const std::vector<int>& ranks, bool share_device) {
  if (context.gpus.devices == 0) return context.gpus.reason;
  for (auto one = ranks.begin(); one != ranks.end(); ++one) {
    const RankFacts& facts = context.facts(*one);
    if (!facts.device) return "rank " + std::to_string(*one) + " has no device";
    const auto other =
        std::find_if(ranks.begin(), one, [&](int rank) { return same_device(context.facts(rank), facts); });
    if (share_device || other == one) continue;
    const std::string others = context.gpus.devices > 1 ? ", and --gpus chooses others" : "";
    return "ranks " + std::to_string(*other) + " and " + std::to_string(*one) +
           " are on one GPU: --share-gpu allows that" + others;
  }
  return {};
}

}  // namespace

std::string ruled_out(const Context& context, const std::vector<int>& ranks, const Plan& plan,
                      const TransportEntry& entry) {
  if (entry.memory == MemoryKind::device) {
    const std::string reason = without_devices(context, ranks, plan.share_device);
    if (!reason.empty()) return reason;
  }
  // A transport is excluded because opening it may end the process; a rank alone opens nothing.
  const auto excluded = plan.excluded.find(entry.name);
  if (excluded != plan.excluded.end() && ranks.size() > 1) return excluded->second;
  return entry.make == nullptr ? entry.missing : "";
}

std::uint64_t memory_share(const Context& context, MemoryKind kind, const Memory* memory, MPI_Comm comm) {
  std::uint64_t share = memory == nullptr ? unlimited : memory->available() / sharers(context, kind);
  VOLLEY_MPI(MPI_Allreduce(MPI_IN_PLACE, &share, 1, MPI_UINT64_T, MPI_MIN, comm));
  return share;
}

// Device memory has the most space around a message.
std::uint64_t bytes_of_buffers(std::uint64_t message_bytes) {
  if (message_bytes > unlimited / 2 - gpu::overhead_bytes_per_buffer) return unlimited;
  return 2 * (message_bytes + gpu::overhead_bytes_per_buffer);
}

}  // namespace volley
