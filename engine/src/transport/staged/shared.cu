// `staged/shared`: GPU -> host -> GPU through one segment of host memory that both ranks have mapped and registered
// with their device. The sender's copy engine writes a chunk, the receiver's reads it; no byte passes through MPI and
// no processor core copies any. Ranks of one node only.
#include <array>

#include "gpu/registration.cuh"
#include "host/shared_segment.hpp"
#include "mpi/text.hpp"
#include "transport/host_driven.hpp"
#include "transport/makers.hpp"
#include "transport/staged/chunked.cuh"
#include "transport/staged/segment_chunks.hpp"

namespace volley {

namespace {

constexpr std::size_t kib = 1024;
constexpr std::size_t mib = 1024 * kib;

// A message of N bytes in chunks of c takes about N/B + c/B (filling the pipeline) + o·N/c, which is least at
// c = sqrt(N·B·o). PCIe 5.0 x16 gives B = 55 GB/s, and that chunks of 512 KiB were seen to move at 40 GB/s means
// o = 3.6 us a chunk: 455 KB for 1 MiB, growing with the root of N. More than 8 MiB would gain another percent and need
// a larger ring.
constexpr std::array<ChunkRow, 6> rows{{
    {256 * kib, 256 * kib},
    {1 * mib, 512 * kib},
    {4 * mib, 1 * mib},
    {16 * mib, 2 * mib},
    {64 * mib, 4 * mib},
    {256 * mib, 8 * mib},
}};

// The ring holds three of the largest chunks: one that the sender fills, one that the receiver empties, and one between
// them, so that neither engine waits for the hosts. Both directions make 48 MiB, which fits into a container's usual 64
// MiB.
constexpr ChunkPolicy policy{rows, 24 * mib};
constexpr std::size_t segment_bytes = SegmentChunks::segment_bytes(policy.ring_bytes);

class SharedChannel : public ChunkedChannel<SegmentChunks> {
 public:
  SharedChannel() : ChunkedChannel(policy) {}

  [[nodiscard]] std::string unavailable(const Context& context, const RankGroup& pair) {
    const auto& first = context.ranks[static_cast<std::size_t>(pair.ranks[0])];
    const auto& second = context.ranks[static_cast<std::size_t>(pair.ranks[1])];
    if (first.node != second.node) {
      return "the ranks are on two nodes, " + first.host + " and " + second.host + ", which share no memory";
    }
    int device = 0;
    int registers = 0;
    VOLLEY_CUDA_CHECK(cudaGetDevice(&device));
    VOLLEY_CUDA_CHECK(cudaDeviceGetAttribute(&registers, cudaDevAttrHostRegisterSupported, device));
    if (registers == 0) return "this device cannot register host memory";
    return pair.leads() ? without_room() : "";
  }

  void open(const Context&, const RankGroup& pair, const Buffers&, std::size_t) {
    segment_ = shared_by(pair);
    registration_ = gpu::Registration(segment_.data(), segment_bytes);
    pipeline_ = {};  // its counts begin where the new segment's begin
    pipeline_.link().open(segment_.data(), policy.ring_bytes, pair.self);
    pipeline_.copies().open();
  }

  void close() {
    pipeline_.clear();
    pipeline_.copies().close();
    registration_ = {};
    segment_ = {};
  }

  // The receiver has said with its last count that everything is on its device: that is the acknowledgement.
  void acknowledge() {}
  void await_acknowledgement() { pipeline_.clear(); }

 private:
  // Only the rank that will create the segment asks: both asking at once would need the room twice.
  static std::string without_room() {
    try {
      const SharedSegment trial = SharedSegment::create(segment_bytes);
      return {};
    } catch (const std::runtime_error& problem) {
      return problem.what();
    }
  }

  // The first rank creates the segment, the second maps it, and its name is gone before anything else can go wrong.
  static SharedSegment shared_by(const RankGroup& pair) {
    SharedSegment segment;
    if (pair.leads()) {
      segment = SharedSegment::create(segment_bytes);
      SegmentChunks::initialise(segment.data());
    }
    const std::string name = mpi::broadcast(segment.name(), 0, pair.control.get());
    std::string problem;
    if (!pair.leads()) {
      try {
        segment = SharedSegment::open(name, segment_bytes);
      } catch (const std::runtime_error& failure) {
        problem = failure.what();
      }
    }
    problem = mpi::broadcast(problem, 1, pair.control.get());
    segment.unlink();
    if (!problem.empty()) throw std::runtime_error(problem);
    return segment;
  }

  SharedSegment segment_;
  gpu::Registration registration_;
};

}  // namespace

std::unique_ptr<Transport> make_staged_shared() { return std::make_unique<Chunked<SharedChannel>>(); }

}  // namespace volley
