// `staged/shared`: GPU -> host -> GPU through one segment of host memory that both ranks have mapped and registered
// with their device. The sender's copy engine writes a chunk, the receiver's reads it; no byte passes through MPI and
// no processor core copies any. Ranks of one node only.
#include <array>

#include "../handles/registration.cuh"
#include "../handles/shared_segment.hpp"
#include "../wire.hpp"
#include "host_driven.hpp"
#include "makers.hpp"
#include "staged_chunked.cuh"
#include "staged_segment_link.hpp"

namespace volley {

namespace {

constexpr std::size_t kib = 1024;
constexpr std::size_t mib = 1024 * kib;

// A message of N bytes in chunks of c takes about N/B + c/B (filling the pipeline) + o·N/c, which is least at
// c = sqrt(N·B·o). PCIe 5.0 x16 gives B = 55 GB/s, and that chunks of 512 KiB were seen to move at 40 GB/s means
// o = 3.6 us a chunk: 455 KB for 1 MiB, growing with the root of N. More than 8 MiB would gain another percent and need
// a larger ring.
constexpr std::array<CutRow, 6> cuts{{
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
constexpr Cutting cutting{cuts, 24 * mib};
constexpr std::size_t segment_bytes = SegmentLink::segment_bytes(cutting.ring_bytes);

class SharedChannel : public ChunkedChannel<SegmentLink> {
 public:
  SharedChannel() : ChunkedChannel(cutting) {}

  [[nodiscard]] std::string unavailable(const Context& context, const Pair& pair) {
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

  void open(const Context&, const Pair& pair, const Buffers&, std::size_t) {
    segment_ = shared_by(pair);
    registration_ = gpu::Registration(segment_.data(), segment_bytes);
    conveyor_ = {};  // its counts begin where the new segment's begin
    conveyor_.link().open(segment_.data(), cutting.ring_bytes, pair.self);
    conveyor_.copies().open();
  }

  void close() {
    conveyor_.clear();
    conveyor_.copies().close();
    registration_ = {};
    segment_ = {};
  }

  // The receiver has said with its last count that everything is on its device: that is the acknowledgement.
  void acknowledge() {}
  void await_acknowledgement() { conveyor_.clear(); }

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
  static SharedSegment shared_by(const Pair& pair) {
    SharedSegment segment;
    if (pair.leads()) {
      segment = SharedSegment::create(segment_bytes);
      SegmentLink::initialise(segment.data());
    }
    const std::string name = wire::broadcast(segment.name(), 0, pair.control.get());
    std::string problem;
    if (!pair.leads()) {
      try {
        segment = SharedSegment::open(name, segment_bytes);
      } catch (const std::runtime_error& failure) {
        problem = failure.what();
      }
    }
    problem = wire::broadcast(problem, 1, pair.control.get());
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
