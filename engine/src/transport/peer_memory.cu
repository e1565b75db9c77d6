#include "transport/peer_memory.cuh"

#include <optional>

namespace volley {

namespace {

const RankFacts& facts_of(const Context& context, int world_rank) {
  return context.ranks[static_cast<std::size_t>(world_rank)];
}

const RankFacts& mine(const Context& context, const RankGroup& pair) {
  return facts_of(context, pair.ranks[static_cast<std::size_t>(pair.self)]);
}

const RankFacts& theirs(const Context& context, const RankGroup& pair) {
  return facts_of(context, pair.ranks[static_cast<std::size_t>(pair.peer())]);
}

std::string name_of(const gpu::Device& device) { return device.name + " " + device.pci; }

// This process's number for a device that may have another number, or none, in another process.
std::optional<int> index_here(const Context& context, const std::string& uuid) {
  for (int index = 0; index < context.gpus.devices; ++index) {
    if (gpu::describe(index).uuid == uuid) return index;
  }
  return std::nullopt;
}

// Whether the two ranks have one device between them.
bool on_one_device(const Context& context, const RankGroup& pair) {
  return same_device(mine(context, pair), theirs(context, pair));
}

}  // namespace

std::string without_peer_access(const Context& context, const RankGroup& pair) {
  const RankFacts& here = mine(context, pair);
  const RankFacts& there = theirs(context, pair);
  if (here.node != there.node) {
    return "the ranks are on two nodes, " + here.host + " and " + there.host + ", and CUDA IPC ends at the node";
  }
  if (on_one_device(context, pair)) return {};
  const std::optional<int> peer = index_here(context, there.device->uuid);
  // CUDA IPC may map memory of a hidden device, but whether it can is found out only by failing.
  if (!peer) {
    return "rank " + std::to_string(here.rank) + " does not see the device of rank " + std::to_string(there.rank) +
           ", " + name_of(*there.device) +
           ": let both see both (CUDA_VISIBLE_DEVICES, Slurm's --gpus-per-task), and choose with "
           "--gpus";
  }
  int reaches = 0;
  VOLLEY_CUDA_CHECK(cudaDeviceCanAccessPeer(&reaches, here.device->index, *peer));
  if (reaches != 0) return {};
  return "no peer access from " + name_of(*here.device) + " to " + name_of(*there.device) +
         "; `nvidia-smi topo -p2p r` says why";
}

std::string without_concurrent_kernels(const Context& context, const RankGroup& pair) {
  if (!on_one_device(context, pair)) return without_peer_access(context, pair);
  return "needs two devices: kernels of two processes take turns on one, and cannot answer each other";
}

PeerBuffers::PeerBuffers(const RankGroup& pair, const Buffers& mine) {
  struct Named {
    cudaIpcMemHandle_t block;
    std::size_t offset;  // of the message in it: guards stand before the message
  };
  const std::array<std::byte*, 2> places{mine.send, mine.recv};
  std::array<Named, 2> named{};
  for (std::size_t i = 0; i < places.size(); ++i) {
    sides_[i].block = gpu::block_of(places[i]);
    sides_[i].mine = places[i];
    named[i] = {gpu::ipc_handle(sides_[i].block.base), static_cast<std::size_t>(places[i] - sides_[i].block.base)};
  }
  named = swapped(named, pair);
  for (std::size_t i = 0; i < places.size(); ++i) {
    sides_[i].mapping = gpu::IpcMapping(named[i].block);
    sides_[i].theirs = sides_[i].mapping.data() + named[i].offset;
  }
}

}  // namespace volley
