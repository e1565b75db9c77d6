// `staged/shared`: GPU -> host -> GPU through one segment of host memory that both ranks map and register with their
// devices. The sender's copy engine writes a chunk, the receiver's reads it; neither MPI nor a processor core copies
// data. For ranks of one node only.
#include <array>

#include "gpu/buffers.cuh"
#include "transport/host_driven.hpp"
#include "transport/pair_segment.hpp"
#include "transport/staged/chunked_messages.cuh"
#include "transport/staged/segment_chunks.hpp"

namespace volley {

namespace {

// PCIe 5.0 x16 gives B = 55 GB/s; chunks of 512 KiB moved at 40 GB/s, so that o = 3.6 us a chunk: 455 KB for 1 MiB,
// growing with the root of N. More than 8 MiB would gain one percent and need a larger ring.
constexpr std::array<ChunkRow, 6> rows{{
    {256 * kib, 256 * kib},
    {1 * mib, 512 * kib},
    {4 * mib, 1 * mib},
    {16 * mib, 2 * mib},
    {64 * mib, 4 * mib},
    {256 * mib, 8 * mib},
}};

// The ring has room for three of the largest chunks: one that the sender fills, one that the receiver empties, and one
// between them, so that neither copy engine waits for the hosts. Both directions need 48 MiB, which fits into the usual
// 64 MiB of a container.
constexpr ChunkPolicy policy{rows, 24 * mib};
constexpr std::size_t segment_bytes = SegmentChunks::segment_bytes(policy.ring_bytes);

class SharedChannel : public ChunkedChannel<SegmentChunks> {
 public:
  SharedChannel() : ChunkedChannel(policy) {}

  [[nodiscard]] std::string unavailable(const Context& context, const RankGroup& pair) {
    const std::string apart = on_two_nodes(context, pair, "which share no memory");
    if (!apart.empty()) return apart;
    return gpu::can_register_host_memory() ? "" : "this device cannot register host memory";
  }

  void open(const RankGroup& pair, const Buffers&) {
    segment_ = make_pair_segment(pair, segment_bytes, SegmentChunks::initialise);
    registration_ = gpu::Registration(segment_.data(), segment_bytes);
    pipeline_ = {};  // its counts start at zero, like those of the new segment
    pipeline_.transport().open(segment_.data(), policy.ring_bytes, pair.self);
    pipeline_.copies().open();
  }

  void close() {
    pipeline_.clear();
    pipeline_.copies().close();
    registration_ = {};
    segment_ = {};
  }

  // The receiver's last count says that everything is on its device: that is the acknowledgement.
  void acknowledge() {}
  void await_acknowledgement() { pipeline_.clear(); }

 private:
  SharedSegment segment_;
  gpu::Registration registration_;
};

}  // namespace

std::unique_ptr<Transport> make_staged_shared() { return std::make_unique<HostDriven<SharedChannel>>(); }

}  // namespace volley
