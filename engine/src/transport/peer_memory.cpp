#include "transport/peer_memory.hpp"

#include <stdexcept>

#include "transport/agreement.hpp"

namespace volley {

namespace {

std::string name_of(const gpu::Device& device) { return device.name + " " + device.pci; }

}  // namespace

std::string without_peer_access(const Context& context, const RankGroup& pair) {
  const std::string apart = on_two_nodes(context, pair, "and CUDA IPC ends at the node");
  if (!apart.empty()) return apart;
  const RankFacts& here = context.facts(pair.rank(pair.self));
  const RankFacts& there = context.facts(pair.rank(pair.peer()));
  if (same_device(here, there)) return {};
  // The other rank's device may have another number in this process, or none; then open() tries the mapping.
  for (int index = 0; index < context.gpus.devices; ++index) {
    if (gpu::describe(index).uuid != there.device->uuid || gpu::can_access_peer(here.device->index, index)) continue;
    return "no peer access from " + name_of(*here.device) + " to " + name_of(*there.device) +
           "; `nvidia-smi topo -p2p r` says why";
  }
  return {};
}

gpu::IpcMapping mapped_from_peer(const gpu::IpcHandle& handle, const RankGroup& pair) {
  try {
    return gpu::IpcMapping(handle);
  } catch (const std::runtime_error& problem) {
    throw std::runtime_error("CUDA IPC cannot map the device memory of rank " + std::to_string(pair.rank(pair.peer())) +
                             ": " + problem.what() +
                             "; let each rank see both devices (CUDA_VISIBLE_DEVICES, Slurm's --gpus-per-task; --gpus "
                             "chooses one), and in containers share the host's IPC and PID namespaces");
  }
}

PeerBuffers::PeerBuffers(const RankGroup& pair, const Buffers& mine) {
  struct Message {
    gpu::IpcHandle block;
    std::size_t offset;  // of the message in the block: guards stand before the message
  };
  const std::array<std::byte*, 2> places{mine.send, mine.recv};
  std::array<Message, 2> messages{};
  agreed_step(pair, [&] {
    for (std::size_t i = 0; i < places.size(); ++i) {
      buffers_[i].block = gpu::block_of(places[i]);
      buffers_[i].mine = places[i];
      messages[i] = {gpu::ipc_handle(buffers_[i].block.base),
                     static_cast<std::size_t>(places[i] - buffers_[i].block.base)};
    }
  });
  messages = exchanged_with_peer(messages, pair);
  agreed_step(pair, [&] {
    for (std::size_t i = 0; i < places.size(); ++i) {
      buffers_[i].mapping = mapped_from_peer(messages[i].block, pair);
      buffers_[i].theirs = buffers_[i].mapping.data() + messages[i].offset;
    }
  });
}

}  // namespace volley
