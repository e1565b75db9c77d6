// `device`: kernels on both devices store directly into the other device's memory and poll flags there. One launch
// makes all exchanges of a batch (of short messages, all except the last one); the host only starts it and waits for
// its end. Halos are stored and awaited by kernels between those that compute; no host takes part. See
// device_kernels.cuh for the protocols.
#include <algorithm>
#include <atomic>

#include "base/round_up.hpp"
#include "gpu/buffers.cuh"
#include "gpu/copy.cuh"
#include "gpu/kernel_launch.cuh"
#include "gpu/streams.cuh"
#include "transport/agreement.hpp"
#include "transport/device_kernels.cuh"
#include "transport/peer_memory.cuh"

namespace volley {

namespace {

using device::Inbox;
using device::Launch;
using device::PollReport;
using device::PollStatus;

// How long a kernel waits for the other one: the other rank may still be checking the last batch, or its host may be
// slow. Less than the watchdog's timeout, so that the device can report what it waited for.
constexpr std::uint64_t timeout_ns = 10'000'000'000;
// Added for each byte: no link that carries peer access is slower than 1 GB/s (PCIe 1.0 x4).
constexpr std::uint64_t timeout_ns_per_byte = 1;

static_assert(message_step_bytes % sizeof(uint4) == 0, "the last message is aligned like the others");

// The smallest part of a long message for a block: one vector of 16 bytes for each of 256 threads.
constexpr std::size_t min_share_bytes = 4096;

struct Shape {
  unsigned blocks = 1;
  unsigned threads = device::warp_threads;
};

constexpr unsigned threads_for(std::size_t accesses) {
  return static_cast<unsigned>(
      std::clamp<std::size_t>(round_up(accesses, device::warp_threads), device::warp_threads, device::max_threads));
}

// One line for each thread, as far as one block has enough threads.
constexpr Shape short_shape(std::size_t bytes) {
  return {1, threads_for(round_up(bytes, device::payload_bytes) / device::payload_bytes)};
}

// Uses all blocks before more than 256 threads in each, and all threads before more than one vector for each: with more
// multiprocessors and threads a message of medium length takes less time. A long message is limited by the link in any
// shape.
constexpr Shape long_shape(std::size_t bytes, unsigned max_blocks) {
  const auto blocks = std::clamp<std::size_t>(round_up(bytes, min_share_bytes) / min_share_bytes, 1, max_blocks);
  const unsigned threads = threads_for(round_up(bytes / blocks, sizeof(uint4)) / sizeof(uint4));
  // At least a warp: one of its lanes polls each block's word.
  return {static_cast<unsigned>(blocks), std::max(threads, device::warp_threads)};
}

using Kernel = void (*)(Launch);

class DeviceTransport final : public Transport {
 public:
  std::string unavailable(const Context& context, const RankGroup& pair) override {
    return without_concurrent_kernels(context, pair);
  }

  void open(const Context&, const RankGroup& pair, const Buffers& buffers, std::size_t) override {
    control_ = pair.control.get();
    ranks_ = {pair.rank(pair.self), pair.rank(pair.peer())};
    leads_ = pair.leads();
    struct Offer {
      unsigned blocks;
      gpu::IpcHandle inbox;
    };
    Offer offer{};
    agreed_step(pair, [&] {
      // All blocks of a launch must be resident together: a block that waits for a free place would wait for ever.
      offer.blocks = std::min({device::max_blocks, gpu::resident_blocks(device::long_round_trips, device::max_threads),
                               gpu::resident_blocks(device::exchange_windows, device::max_threads)});
      stream_ = gpu::Stream::make();
      report_ = gpu::PinnedBuffer(sizeof(PollReport));
      inbox_ = gpu::DeviceBuffer(sizeof(Inbox));
      offer.inbox = gpu::ipc_handle(inbox_.data());
    });
    const Offer theirs = exchanged_with_peer(offer, pair);
    max_blocks_ = std::min(offer.blocks, theirs.blocks);
    agreed_step(pair, [&] { inbox_there_ = mapped_from_peer(theirs.inbox, pair); });
    buffers_ = PeerBuffers(pair, buffers);
  }

  // Numbers start again with an empty inbox. Every message of one size writes the same lines of the inbox, so that the
  // numbers, which have 32 bits in a line, may overflow.
  void prepare(const View&) override {
    last_ = 0;
    *report() = {PollStatus::ready, 0};
    gpu::zero(inbox_.data(), sizeof(Inbox));
    gpu::synchronize();
    VOLLEY_MPI(MPI_Barrier(control_));  // the other rank's first message comes after this
  }

  // Exchanges with a place each have a launch each, because the kernels of round trips use one place.
  void round_trips(const View& view, std::uint64_t exchanges) override {
    if (view.stride == 0) return exchange(view, exchanges);
    for (std::uint64_t i = 0; i < exchanges; ++i) exchange(view.message(i), 1);
  }

  void windows(const View& view, std::uint64_t count, const Window& window) override {
    Launch launch = launch_of(view, count, window.messages);
    const bool both = window.direction == Direction::bi;
    launch.sends = leads_ || both;
    launch.receives = !leads_ || both;
    launch_together(device::exchange_windows, long_shape(view.bytes, max_blocks_), launch);
    complete(launch);
  }

  void open_halo(const View& view) override { prepare(view); }
  [[nodiscard]] bool host_driven() const override { return false; }

  void leave(const View& view, gpu::StreamHandle cuda_stream) override {
    const auto threads = view.bytes / sizeof(uint4) + 1;
    const auto blocks = std::clamp<std::size_t>((threads + device::halo_threads - 1) / device::halo_threads, 1,
                                                device::max_halo_blocks);
    device::store_halo<<<static_cast<unsigned>(blocks), device::halo_threads, 0, cuda_stream>>>(
        view.send, buffers_.opposite(view.recv), view.bytes, inbox(), inbox_there(), ++last_);
    gpu::check_launch();
  }

  void arrive(const View&, gpu::StreamHandle cuda_stream) override {
    device::await_halo<<<1, 1, 0, cuda_stream>>>(inbox(), wait_up_to(timeout_ns), last_);
    gpu::check_launch();
  }

  void progress() override {
    const auto status = std::atomic_ref(report()->status).load(std::memory_order_acquire);
    if (status != PollStatus::ready) fail("halo " + std::to_string(report()->number), timeout_ns);
  }

  // The other rank closes its mapping of the inbox before this rank frees the inbox.
  void close() override {
    buffers_ = {};
    inbox_there_ = {};
    VOLLEY_MPI(MPI_Barrier(control_));
    inbox_ = {};
    report_ = {};
    stream_ = {};
  }

  [[nodiscard]] Facts facts() const override {
    return {{"flag_in_word_up_to_bytes", device::short_bytes},
            {"flag_in_word_most_threads", device::max_threads},
            {"direct_stores_most_blocks", device::max_blocks},
            {"direct_stores_most_threads_per_block", device::max_threads},
            {"windows", "direct stores at every size"},
            {"timeout_s", static_cast<double>(timeout_ns) * 1e-9}};
  }

 private:
  [[nodiscard]] PollReport* report() const { return reinterpret_cast<PollReport*>(report_.data()); }
  [[nodiscard]] Inbox* inbox() const { return reinterpret_cast<Inbox*>(inbox_.data()); }
  [[nodiscard]] Inbox* inbox_there() const { return reinterpret_cast<Inbox*>(inbox_there_.data()); }

  [[nodiscard]] device::PeerWait wait_up_to(std::uint64_t nanoseconds) const {
    return {report(), &inbox()->gave_up, &inbox_there()->gave_up, nanoseconds};
  }

  void exchange(const View& view, std::uint64_t exchanges) {
    const Launch launch = launch_of(view, exchanges, 1);
    if (view.bytes > device::short_bytes) {
      launch_together(device::long_round_trips, long_shape(view.bytes, max_blocks_), launch);
    } else {
      launch_short(launch);
    }
    complete(launch);
  }

  [[nodiscard]] Launch launch_of(const View& view, std::uint64_t count, int window_messages) const {
    return {.send = view.send,
            .recv = view.recv,
            .recv_there = buffers_.opposite(view.recv),
            .bytes = view.bytes,
            .last_offset = view.last_offset,
            .stride = view.stride,
            .inbox = inbox(),
            .inbox_there = inbox_there(),
            .last = last_,
            .count = count,
            .window_messages = window_messages,
            .leads = leads_,
            .sends = false,
            .receives = false,
            .wait = wait_up_to(timeout_ns +
                               timeout_ns_per_byte * view.bytes * static_cast<std::uint64_t>(window_messages))};
  }

  // The last message is sent from another place. It has its own launch, behind the launch of all others: another
  // instruction in the loop of that kernel would make every exchange slower.
  void launch_short(const Launch& all) {
    const bool one_line = round_up(all.bytes, device::payload_bytes) <= device::max_threads * device::payload_bytes;
    const Kernel kernel =
        one_line ? device::short_round_trips<1> : device::short_round_trips<device::max_lines_per_thread>;
    const Shape shape = short_shape(all.bytes);
    if (all.last_offset == 0) return launch_alone(kernel, shape, all);
    Launch before = all;
    before.count = all.count - 1;
    Launch last = all;
    last.send += all.last_offset;
    last.last += before.count;
    last.count = 1;
    if (before.count > 0) launch_alone(kernel, shape, before);
    launch_alone(kernel, shape, last);
  }

  // One block.
  void launch_alone(Kernel kernel, const Shape& shape, const Launch& launch) {
    kernel<<<shape.blocks, shape.threads, 0, stream_.get()>>>(launch);
    gpu::check_launch();
  }

  void launch_together(Kernel kernel, const Shape& shape, const Launch& launch) {
    gpu::launch_together(kernel, shape.blocks, shape.threads, stream_.get(), launch);
  }

  void complete(const Launch& launch) {
    stream_.synchronize();
    if (report()->status != PollStatus::ready) {
      const char* what = launch.window_messages > 1 ? "window " : "message ";
      fail(what + std::to_string(report()->number) + " of " + std::to_string(launch.bytes) + " B",
           launch.wait.timeout_ns);
    }
    last_ += launch.count;
  }

  [[noreturn]] void fail(const std::string& what, std::uint64_t waited_ns) const {
    const std::string mine = std::to_string(ranks_[0]);
    const std::string other = "the device of rank " + std::to_string(ranks_[1]);
    if (report()->status == PollStatus::peer_gave_up) {
      throw std::runtime_error("device: " + other + " timed out; rank " + mine + " stopped waiting for " + what);
    }
    throw std::runtime_error("device: the device of rank " + mine + " waited " +
                             std::to_string(waited_ns / 1'000'000'000) + " s for " + what + " from " + other +
                             ": its kernel does not run, or its stores do not arrive");
  }

  MPI_Comm control_ = MPI_COMM_NULL;
  std::array<int, 2> ranks_{};  // this rank's and the other's number in the world
  bool leads_ = false;
  unsigned max_blocks_ = 1;  // the same on both ranks: both grids have one size
  std::uint64_t last_ = 0;   // number of the last message, window or halo, the same on both ranks
  gpu::Stream stream_;
  gpu::PinnedBuffer report_;
  gpu::DeviceBuffer inbox_;
  gpu::IpcMapping inbox_there_;
  PeerBuffers buffers_;
};

}  // namespace

std::unique_ptr<Transport> make_device() { return std::make_unique<DeviceTransport>(); }

}  // namespace volley
