// `peer`: the sender's copy engine writes into the other rank's device memory, mapped through CUDA IPC. No MPI and no
// host memory in the data path; the hosts signal each other through one cache line each.
//
// How completion is signalled: the copy, cudaStreamSynchronize, a release store by the host, and an acquire load by the
// other host. The host sees the stream complete only when the copy's writes are visible to the whole system, including
// the other device. So the receiving host knows that the message is complete before it enqueues the answer.
// cudaStreamSynchronize spins (cudaDeviceScheduleAuto with more processors than contexts) on the word that the copy
// engine writes after every copy: this adds nothing to the stream, while polling an event or cudaStreamQuery would add
// the overhead of a call to each poll.
#include <sched.h>

#include <atomic>
#include <new>

#include "transport/host_driven.hpp"
#include "transport/peer_memory.hpp"
#include "transport/shared_segment.hpp"

namespace volley {
namespace {

// Each rank counts its signals to the other rank. "Delivered" and "acknowledged" follow each other in an order that
// both ranks know, so that one count is enough.
class PeerSignals {
 public:
  PeerSignals() = default;

  // Collective over the pair.
  explicit PeerSignals(const RankGroup& pair)
      : segment_(make_pair_segment(pair, sizeof(SentCounts), [](std::byte* at) { new (at) SentCounts; })) {
    auto* counts = std::launder(reinterpret_cast<SentCounts*>(segment_.data()));
    mine_ = &counts->of_rank[pair.self].sent;
    theirs_ = &counts->of_rank[pair.peer()].sent;
  }

  void signal() { mine_->store(++sent_, std::memory_order_release); }

  void await() {
    ++received_;
    for (unsigned polls = 1; theirs_->load(std::memory_order_acquire) < received_; ++polls) {
      // If there are more ranks than cores, the other rank may be waiting for this core.
      if (polls % polls_between_yields == 0) sched_yield();
    }
  }

 private:
  // About 10 us: longer than a small copy takes, shorter than a scheduler's time slice.
  static constexpr unsigned polls_between_yields = 10'000;
  static constexpr std::size_t line_bytes = 128;  // processors fetch lines of 64 bytes in pairs

  struct SentCounts {
    struct Count {
      alignas(line_bytes) std::atomic<std::uint64_t> sent{0};
    } of_rank[2];
  };
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "two processes share the counts");

  SharedSegment segment_;
  std::atomic<std::uint64_t>* mine_ = nullptr;
  const std::atomic<std::uint64_t>* theirs_ = nullptr;
  std::uint64_t sent_ = 0;
  std::uint64_t received_ = 0;
};

class PeerChannel {
 public:
  [[nodiscard]] static std::string unavailable(const Context& context, const RankGroup& pair) {
    return without_peer_access(context, pair);
  }

  void open(const RankGroup& pair, const Buffers& buffers) {
    buffers_ = PeerBuffers(pair, buffers);
    signals_ = PeerSignals(pair);
    stream_ = gpu::Stream::make();
  }

  void prepare(const View&) {}

  void close() {
    signals_ = {};
    stream_ = {};
    buffers_ = {};
  }

  void send(const View& view) {
    start_send(view);
    finish();
  }
  void recv(const View&) { signals_.await(); }

  void start_send(const View& view) {
    copy(view, stream_.get());
    sending_ = true;
  }
  void start_recv(const View&) { receiving_ = true; }

  // Signals that all messages of a window are delivered, and waits for the same signal from the other rank.
  void finish() {
    if (sending_) {
      stream_.synchronize();
      signals_.signal();
    }
    if (receiving_) signals_.await();
    sending_ = false;
    receiving_ = false;
  }

  void acknowledge() { signals_.signal(); }
  void await_acknowledgement() { signals_.await(); }

  void copy(const View& view, gpu::StreamHandle cuda_stream) {
    gpu::copy_async<gpu::on_device>(buffers_.opposite(view.recv), view.send, view.bytes, cuda_stream);
  }

 private:
  PeerBuffers buffers_;
  gpu::Stream stream_;
  PeerSignals signals_;
  bool sending_ = false;
  bool receiving_ = false;
};

class Peer final : public HostDriven<PeerChannel>, public HaloExchange {
 public:
  [[nodiscard]] HaloExchange* halo() override { return this; }
  [[nodiscard]] Json facts() const override {
    return {{"bytes_moved_by", "the sender's copy engine, writing"},
            {"completion", "cudaStreamSynchronize, then a count in shared host memory"}};
  }

  // A halo's copy is enqueued after the kernel that wrote the halo; the hosts signal each other as for a message.
  void enqueue_send(const View& view, gpu::StreamHandle cuda_stream) override { channel_.copy(view, cuda_stream); }
  void start(const View&) override { channel_.acknowledge(); }
  void finish() override { channel_.await_acknowledgement(); }
};

}  // namespace

std::unique_ptr<Transport> make_peer() { return std::make_unique<Peer>(); }

}  // namespace volley
