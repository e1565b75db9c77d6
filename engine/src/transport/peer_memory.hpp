// For transports that write into the other rank's device memory.
#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "gpu/runtime.hpp"
#include "transport/transport.hpp"

namespace volley {

// Why this rank's device cannot access the other rank's device memory; empty if it can, or if only open() can find out.
[[nodiscard]] std::string without_peer_access(const Context& context, const RankGroup& pair);

// Maps the other rank's device memory that `handle` names. Throws a std::runtime_error that says what to do.
[[nodiscard]] gpu::IpcMapping mapped_from_peer(const gpu::IpcHandle& handle, const RankGroup& pair);

class PeerBuffers {
 public:
  PeerBuffers() = default;
  // Both ranks throw a std::runtime_error if one of them cannot map the other's buffers. Collective over the pair.
  PeerBuffers(const RankGroup& pair, const Buffers& mine);

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
