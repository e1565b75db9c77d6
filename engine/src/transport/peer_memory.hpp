// For transports that write into the other rank's device memory.
#pragma once

#include "gpu/runtime.hpp"
#include "group/agreement.hpp"
#include "transport/transport.hpp"

namespace volley {

// Why this rank's device cannot access the other rank's device memory; empty if it can, or if only open() can find out.
[[nodiscard]] inline std::string without_peer_access(const Context& context, const RankGroup& pair) {
  const std::string apart = on_two_nodes(context, pair, "and CUDA IPC ends at the node");
  if (!apart.empty()) return apart;
  if (context.gpu(pair.rank(0)) == context.gpu(pair.rank(1))) return {};
  const RankFacts& here = context.facts(pair.rank(pair.self));
  const RankFacts& there = context.facts(pair.rank(pair.peer()));
  // The other rank's device may have another number in this process, or none; then open() tries the mapping.
  for (int index = 0; index < context.gpus.devices; ++index) {
    if (gpu::describe(index).uuid != there.device->uuid || gpu::can_access_peer(here.device->index, index)) continue;
    return "no peer access from " + here.device->name + " " + here.device->pci + " to " + there.device->name + " " +
           there.device->pci + "; `nvidia-smi topo -p2p r` shows why";
  }
  return {};
}

// Maps the other rank's device memory that `handle` names. Throws a std::runtime_error that says what to do.
[[nodiscard]] inline gpu::IpcMapping mapped_from_peer(const gpu::IpcHandle& handle, const RankGroup& pair) {
  try {
    return gpu::IpcMapping(handle);
  } catch (const std::runtime_error& problem) {
    throw std::runtime_error("CUDA IPC cannot map the device memory of rank " + std::to_string(pair.rank(pair.peer())) +
                             ": " + problem.what() +
                             "; let each rank see both devices (CUDA_VISIBLE_DEVICES, Slurm's --gpus-per-task; --gpus "
                             "chooses one), and in containers share the host's IPC and PID namespaces");
  }
}

class PeerBuffers {
 public:
  PeerBuffers() = default;
  // Both ranks throw a std::runtime_error if one of them cannot map the other's buffers. Collective over the pair.
  PeerBuffers(const RankGroup& pair, const Buffers& mine) {
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

  // The place in the other rank's memory that corresponds to `mine`: the same offset in the same one of the two
  // buffers. Both ranks use equal views (one buffer for both directions, or two).
  [[nodiscard]] std::byte* opposite(const std::byte* mine) const {
    const MappedBuffer& buffer = buffers_[0].block.holds(mine) ? buffers_[0] : buffers_[1];
    return buffer.theirs + (mine - buffer.mine);
  }

 private:
  struct MappedBuffer {
    gpu::Block block;  // the allocation here that the buffer is in
    const std::byte* mine = nullptr;
    gpu::IpcMapping mapping;
    std::byte* theirs = nullptr;
  };
  std::array<MappedBuffer, 2> buffers_;  // send, recv
};

}  // namespace volley
