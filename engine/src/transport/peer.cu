// `peer`: the sender's copy engine writes into the other rank's device memory, mapped through CUDA IPC. No MPI and no
// host memory in the data path; the hosts signal each other through one cache line each.
//
// Why a host and a line signal completion, in this order: the copy, cudaStreamSynchronize, a release store, and on the
// other side an acquire load. The host sees the Stream complete only when the copy's writes are visible to the whole
// system, the other device included; what the other host does after it has read the new count, it does after that. The
// receiving host thus sees completion before it enqueues the answer. cudaStreamSynchronize spins
// (cudaDeviceScheduleAuto with more processors than contexts) on the word that the copy engine writes behind every
// copy: nothing is added to the Stream for it, and asking through an event or cudaStreamQuery would repeat a call's
// overhead for each look.
#include <sched.h>

#include <atomic>
#include <cstdint>
#include <new>

#include "gpu/copy.cuh"
#include "gpu/streams.cuh"
#include "transport/host_driven.hpp"
#include "transport/pair_segment.hpp"
#include "transport/peer_memory.cuh"

namespace volley {

namespace {

// Each rank counts its signals to the other: "delivered" and "acknowledged" alternate in an order that both know, so
// one count serves both.
class Doorbell {
 public:
  Doorbell() = default;

  // Collective over the pair.
  explicit Doorbell(const RankGroup& pair)
      : segment_(make_pair_segment(pair, sizeof(Bells), [](std::byte* at) { new (at) Bells; })) {
    auto* bells = std::launder(reinterpret_cast<Bells*>(segment_.data()));
    mine_ = &bells->of[pair.self].rings;
    theirs_ = &bells->of[pair.peer()].rings;
  }

  void ring() { mine_->store(++rung_, std::memory_order_release); }

  void await() {
    ++heard_;
    for (unsigned looks = 1; theirs_->load(std::memory_order_acquire) < heard_; ++looks) {
      // Where ranks outnumber cores the other one may be waiting for this core.
      if (looks % looks_between_yields == 0) sched_yield();
    }
  }

 private:
  // About 10 us of looking: longer than a small copy takes, shorter than a scheduler's time slice.
  static constexpr unsigned looks_between_yields = 10'000;
  static constexpr std::size_t line_bytes = 128;  // processors fetch lines of 64 bytes in pairs

  struct Bells {
    struct Bell {
      alignas(line_bytes) std::atomic<std::uint64_t> rings{0};
    } of[2];
  };
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "two processes share the counts");

  SharedSegment segment_;
  std::atomic<std::uint64_t>* mine_ = nullptr;
  const std::atomic<std::uint64_t>* theirs_ = nullptr;
  std::uint64_t rung_ = 0;
  std::uint64_t heard_ = 0;
};

class PeerChannel {
 public:
  [[nodiscard]] static std::string unavailable(const Context& context, const RankGroup& pair) {
    return without_peer_access(context, pair);
  }

  void open(const Context&, const RankGroup& pair, const Buffers& buffers, std::size_t) {
    buffers_ = PeerBuffers(pair, buffers);
    doorbell_ = Doorbell(pair);
    stream_ = gpu::Stream::make();
  }

  void prepare(const View&) {}

  void close() {
    doorbell_ = {};
    stream_ = {};
    buffers_ = {};
  }

  void send(const View& view) {
    start_send(view);
    finish();
  }
  void recv(const View&) { doorbell_.await(); }

  void start_send(const View& view) {
    copy(view, stream_.get());
    sending_ = true;
  }
  void start_recv(const View&) { receiving_ = true; }

  // Signals that all messages of a window are there, and waits for the same of those that come in.
  void finish() {
    if (sending_) {
      stream_.synchronize();
      doorbell_.ring();
    }
    if (receiving_) doorbell_.await();
    sending_ = false;
    receiving_ = false;
  }

  void acknowledge() { doorbell_.ring(); }
  void await_acknowledgement() { doorbell_.await(); }

  void copy(const View& view, gpu::StreamHandle cuda_stream) {
    gpu::copy_on_device_async(buffers_.opposite(view.recv), view.send, view.bytes, cuda_stream);
  }

 private:
  PeerBuffers buffers_;
  gpu::Stream stream_;
  Doorbell doorbell_;
  bool sending_ = false;
  bool receiving_ = false;
};

class Peer final : public HostDriven<PeerChannel> {
 public:
  [[nodiscard]] Facts facts() const override {
    return {{"bytes_moved_by", "the sender's copy engine, writing"},
            {"completion", "cudaStreamSynchronize, then a count in shared host memory"}};
  }

  // A halo's copy goes behind the kernel that wrote the halo; the hosts signal each other as for a message.
  void leave(const View& view, gpu::StreamHandle cuda_stream) override { channel_.copy(view, cuda_stream); }
  void start(const View&) override { channel_.acknowledge(); }
  void finish() override { channel_.await_acknowledgement(); }
};

}  // namespace

std::unique_ptr<Transport> make_peer() { return std::make_unique<Peer>(); }

}  // namespace volley
