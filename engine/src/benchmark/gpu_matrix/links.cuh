// The links between GPUs of one process: the GPUs with their buffers and streams, and the routes of the messages.
#pragma once

#include "benchmark/gpu_matrix/section.hpp"
#include "gpu/runtime.hpp"
#include "machine/placement.hpp"

namespace volley::gpu_matrix {

using Seconds = std::chrono::duration<double>;

// A kernel that blocks a stream: work after it begins when the blocker is opened, or after a deadline.
class StreamBlocker {
 public:
  struct Latch {
    std::uint64_t open;     // the last ticket that may continue
    std::uint64_t expired;  // a ticket whose deadline has passed
  };
  StreamBlocker();
  // Work that is enqueued on the stream from now on waits. The stream's device must be the current one.
  void close(const gpu::Stream& cuda_stream, Seconds timeout);
  void open();
  // Whether a stream continued because of the deadline.
  [[nodiscard]] bool expired() const;

 private:
  gpu::PinnedValues<Latch> latch_;
  std::uint64_t ticket_ = 0;
};

// A link made no progress. Its operations are still running, and its memory must not be freed.
class HungError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// No link that carries peer access is slower than 1 GB/s (PCIe 1.0 x4).
constexpr double timeout_s_per_byte = 1e-9;

// A device, with a pair of buffers and a stream for each of the two directions, and a blocker for its streams.
struct GpuEndpoint {
  int device = 0;
  std::array<std::unique_ptr<Memory>, 2> memories;
  std::array<Buffers, 2> buffers;
  std::array<gpu::Stream, 2> streams;
  std::unique_ptr<StreamBlocker> blocker;
};

struct Location {
  Verifier* verifier = nullptr;
  std::byte* at = nullptr;
  int device = -1;  // CUDA's number; -1: host memory
};

struct Route {
  Location from;
  Location to;
  const GpuEndpoint* driver = nullptr;     // its copy engine or kernel moves the data
  std::size_t number = 0;                  // 0: there, 1: back
  bool timed = true;                       // if not, it keeps another link busy meanwhile
  std::optional<Location> over_link = {};  // `to`, but verified by a kernel of the other device

  [[nodiscard]] const gpu::Stream& cuda_stream() const { return driver->streams[number]; }
  // The place from which message or window number `turn` of `count` is sent; see View.
  [[nodiscard]] const std::byte* source(const View& view, std::uint64_t turn, std::uint64_t count) const {
    return from.at + (turn < count ? 0 : view.last_offset);
  }
};

inline void select(const Location& place) {
  if (place.device >= 0) gpu::select(place.device);
}

// Waits until the stream has finished. Throws HungError after `timeout`; the stream must then not be used any more.
void await(const gpu::Stream& cuda_stream, Seconds timeout);

// Pinned memory, near the calling thread: it is where the thread that touches it first runs.
struct HostEnd {
  static constexpr std::size_t page_bytes = 4096;
  HostEnd(int device, std::uint64_t bytes)
      : memory((gpu::select(device), bytes + 2 * page_bytes)), verifier(make_host_memory()) {}
  [[nodiscard]] Location location() const { return {verifier.get(), memory.data() + page_bytes, -1}; }

  gpu::PinnedBuffer memory;
  std::unique_ptr<Memory> verifier;  // works on any host memory; its own buffers are not used
};

struct LinkSetup {
  const Section& section;
  std::vector<Route> routes;
  bool peers;                // peer access is enabled between the two GPUs in both directions; true within one GPU
  Seconds timeout;           // of what the link starts
  std::uint64_t room_bytes;  // of each buffer
  bool hangs = false;        // a test
  std::vector<std::unique_ptr<const HostEnd>> hosts = {};  // where the host is an end, one for each route
};

// One cell of a section: moves its messages when the timing loop calls it, and verifies them route by route: where they
// arrive and, if peer access is enabled, also by a kernel of the other device. The places of a view are those of the
// messages there; a message back has the same offsets in buffers of its own.
class GpuLink : public Driver, public Verifier {
 public:
  explicit GpuLink(LinkSetup setup) : setup_(std::move(setup)) {}

  void fill(std::byte* message, std::size_t bytes, const Contents& contents) final;
  void poison(std::byte* message, std::size_t bytes, const Contents& expected) final;
  [[nodiscard]] std::optional<Mismatch> check(const std::byte* message, std::size_t bytes,
                                              const Contents& expected) final;
  // What the verification found, as a sentence; empty if everything is correct.
  [[nodiscard]] const std::string& complaint() const { return complaint_; }
  [[nodiscard]] bool peers() const { return setup_.peers; }
  // Of the messages there.
  [[nodiscard]] Buffers buffers() const {
    return {setup_.routes.front().from.at, setup_.routes.front().to.at, setup_.room_bytes};
  }

 protected:
  const LinkSetup setup_;

 private:
  std::string complaint_;
};

[[nodiscard]] std::unique_ptr<GpuLink> make_link(LinkSetup setup);

}  // namespace volley::gpu_matrix
