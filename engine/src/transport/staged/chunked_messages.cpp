// `staged/pipelined`: GPU -> host -> MPI -> host -> GPU in chunks: while one chunk is copied from the device, MPI sends
// the chunk before it, and the chunk before that is copied to the other device.
//
// `staged/shared`: GPU -> host -> GPU through one segment of host memory that both ranks map and register with their
// devices. The sender's copy engine writes a chunk, the receiver's reads it; neither MPI nor a processor core copies
// data. For ranks of one node only.
#include <array>

#include "gpu/runtime.hpp"
#include "transport/agreement.hpp"
#include "transport/host_driven.hpp"
#include "transport/staged/chunk_pipeline.hpp"
#include "transport/staged/chunks.hpp"
#include "transport/staged/copies.hpp"

namespace volley {

namespace {

// The calls of a HostDriven channel, except those that open, close and acknowledge.
template <class ChunkTransport>
class ChunkedChannel {
 public:
  explicit ChunkedChannel(const ChunkPolicy& policy) : policy_(policy) {}

  void prepare(const View& view) { pipeline_.prepare(view.bytes, policy_.of(view.bytes)); }

  // Each returns when the whole message has left the device, or is on it: an answer does not start before.
  void send(const View& view) {
    start_send(view);
    finish();
  }
  void recv(const View& view) {
    start_recv(view);
    finish();
  }
  void start_send(const View& view) { pipeline_.add_send(view); }
  void start_recv(const View& view) { pipeline_.add_recv(view); }
  void finish() { pipeline_.run(); }

  // Of both directions.
  [[nodiscard]] std::uint64_t host_memory_bytes(std::uint64_t, const std::optional<Window>&) const {
    return 2 * policy_.ring_bytes;
  }
  [[nodiscard]] Json facts() const { return policy_.facts(); }

 protected:
  ChunkPipeline<ChunkTransport, AsyncCopies> pipeline_;

 private:
  const ChunkPolicy& policy_;
};

// MPI through host memory is the slowest part: B = 12 GB/s and o = 6 us a chunk, measured between two processes on a
// host with two H200s, give 275 KB for 1 MiB, growing with the root of N. Chunks of more than 1 MiB would not stay in
// the caches between the copy engines and MPI's copy.
constexpr std::array<ChunkRow, 4> pipelined_rows{{
    {128 * kib, 128 * kib},
    {1 * mib, 256 * kib},
    {4 * mib, 512 * kib},
    {16 * mib, 1 * mib},
}};

// The ring has room for four of the largest chunks: one at each of the three stages, and one more so that no stage
// waits for another.
constexpr ChunkPolicy pipelined_policy{pipelined_rows, 4 * mib};

class PipelinedChannel : public ChunkedChannel<MpiChunks<gpu::PinnedBuffer>> {
 public:
  PipelinedChannel() : ChunkedChannel(pipelined_policy) {}

  void open(const RankGroup& pair, const Buffers& buffers) {
    mpi_.open(pair, buffers);
    pipeline_.transport().open(pair);
    pipeline_.copies().open();
  }
  void prepare(const View& view) {
    ChunkedChannel::prepare(view);
    pipeline_.transport().reserve(true, true);
  }
  void close() {
    pipeline_.transport().free();
    pipeline_.copies().close();
    mpi_.close();
  }
  void acknowledge() { mpi_.acknowledge(); }
  void await_acknowledgement() { mpi_.await_acknowledgement(); }

 private:
  MpiChannel mpi_;  // for acknowledgements
};

// PCIe 5.0 x16 gives B = 55 GB/s; chunks of 512 KiB moved at 40 GB/s, so that o = 3.6 us a chunk: 455 KB for 1 MiB,
// growing with the root of N. More than 8 MiB would gain one percent and need a larger ring.
constexpr std::array<ChunkRow, 6> shared_rows{{
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
constexpr ChunkPolicy shared_policy{shared_rows, 24 * mib};
constexpr std::size_t segment_bytes = SegmentChunks::segment_bytes(shared_policy.ring_bytes);

class SharedChannel : public ChunkedChannel<SegmentChunks> {
 public:
  SharedChannel() : ChunkedChannel(shared_policy) {}

  [[nodiscard]] std::string unavailable(const Context& context, const RankGroup& pair) {
    const std::string apart = on_two_nodes(context, pair, "which share no memory");
    if (!apart.empty()) return apart;
    return gpu::can_register_host_memory() ? "" : "this device cannot register host memory";
  }

  void open(const RankGroup& pair, const Buffers&) {
    segment_ = make_pair_segment(pair, segment_bytes, SegmentChunks::initialise);
    registration_ = gpu::Registration(segment_.data(), segment_bytes);
    pipeline_ = {};  // its counts start at zero, like those of the new segment
    pipeline_.transport().open(segment_.data(), shared_policy.ring_bytes, pair.self);
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

std::unique_ptr<Transport> make_staged_pipelined() { return std::make_unique<HostDriven<PipelinedChannel>>(); }
std::unique_ptr<Transport> make_staged_shared() { return std::make_unique<HostDriven<SharedChannel>>(); }

}  // namespace volley
