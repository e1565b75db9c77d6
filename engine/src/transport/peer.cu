// `peer`: the sender's copy engine writes into the other rank's device memory, mapped through CUDA IPC. No MPI and no
// host memory in the data path; the hosts tell each other through one cache line each.
//
// Why a host and a line tell of completion, in this order: the copy, cudaStreamSynchronize, a release store, and on the
// other side an acquire load. The host sees the cuda_stream complete only when the copy's writes are visible to the
// whole system, the other device included; what the other host does after it has read the new count, it does after
// that. The receiving host thus sees completion before it enqueues the answer. cudaStreamSynchronize spins
// (cudaDeviceScheduleAuto with more processors than contexts) on the word that the copy engine writes behind every
// copy: nothing is added to the cuda_stream for it, and asking through an event or cudaStreamQuery would repeat a
// call's overhead for each look.
#include <sched.h>

#include <atomic>
#include <cstdint>
#include <new>

#include "gpu/stream.cuh"
#include "host/shared_segment.hpp"
#include "mpi/text.hpp"
#include "transport/halo_link.hpp"
#include "transport/host_driven.hpp"
#include "transport/makers.hpp"
#include "transport/peer_memory.cuh"

namespace volley {

namespace {

// Each rank counts what it has to tell the other: "delivered" and "acknowledged" alternate in an order that both know,
// so one count serves both.
class Doorbell {
 public:
  // Why there is no room for it; empty when there is.
  [[nodiscard]] static std::string without_room() {
    try {
      const SharedSegment trial = SharedSegment::create(sizeof(DoorbellCounts));
      return {};
    } catch (const std::runtime_error& problem) {
      return problem.what();
    }
  }

  Doorbell() = default;

  // Collective over the pair.
  explicit Doorbell(const RankGroup& pair) {
    if (pair.leads()) {
      segment_ = SharedSegment::create(sizeof(DoorbellCounts));
      new (segment_.data()) DoorbellCounts;
    }
    const std::string name = mpi::broadcast(segment_.name(), 0, pair.control.get());
    if (!pair.leads()) segment_ = SharedSegment::open(name, sizeof(DoorbellCounts));
    VOLLEY_MPI(MPI_Barrier(pair.control.get()));
    segment_.unlink();  // both have mapped it; what remains goes with the last process, however that ends
    auto* counts = std::launder(reinterpret_cast<DoorbellCounts*>(segment_.data()));
    mine_ = &counts->of[pair.self].told;
    theirs_ = &counts->of[pair.peer()].told;
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

  struct DoorbellCounts {
    struct DoorbellLine {
      alignas(line_bytes) std::atomic<std::uint64_t> told{0};
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
    const std::string reason = without_peer_access(context, pair);
    return reason.empty() && pair.leads() ? Doorbell::without_room() : reason;
  }

  void open(const Context&, const RankGroup& pair, const Buffers& buffers, std::size_t) {
    buffers_ = PeerBuffers(pair, buffers);
    stream_ = gpu::Stream::make();
    doorbell_ = Doorbell(pair);
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
    VOLLEY_CUDA_CHECK(
        cudaMemcpyAsync(buffers_.opposite(view.recv), view.send, view.bytes, cudaMemcpyDeviceToDevice, stream_.get()));
    sending_ = true;
  }
  void start_recv(const View&) { receiving_ = true; }

  // Tells of all messages of a window at once, and hears the same of those that come in.
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
};

// The copy goes behind the kernel that wrote the halo; the hosts tell each other as in a ping-pong.
class PeerHalo final : public HaloLink {
 public:
  std::string unavailable(const Context& context, const RankGroup& pair) override {
    return PeerChannel::unavailable(context, pair);
  }
  void open(const Context&, const RankGroup& pair, const Buffers& buffers, std::size_t, const View&) override {
    neighbour_ = PeerBuffers(pair, buffers);
    doorbell_ = Doorbell(pair);
  }
  void leave(const View& view, CUstream_st* cuda_stream) override {
    VOLLEY_CUDA_CHECK(
        cudaMemcpyAsync(neighbour_.opposite(view.recv), view.send, view.bytes, cudaMemcpyDeviceToDevice, cuda_stream));
  }
  void start(const View&) override { doorbell_.ring(); }
  void progress() override {}
  void finish() override { doorbell_.await(); }
  void close() override {
    doorbell_ = {};
    neighbour_ = {};
  }

 private:
  PeerBuffers neighbour_;
  Doorbell doorbell_;
};

}  // namespace

std::unique_ptr<HaloLink> make_peer_halo() { return std::make_unique<PeerHalo>(); }
std::unique_ptr<Transport> make_peer() { return std::make_unique<Peer>(); }

}  // namespace volley
