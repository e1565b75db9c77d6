// `device`: kernels on both devices store straight into the other's memory and poll flags there. One launch makes all
// exchanges of a batch (of short messages, all but the last one); the host only starts it and waits for its end. See
// device_kernels.cuh for the protocols.
#include <algorithm>

#include "gpu/device_buffer.cuh"
#include "gpu/pinned_buffer.cuh"
#include "gpu/stream.cuh"
#include "transport/device_kernels.cuh"
#include "transport/makers.hpp"
#include "transport/peer_memory.cuh"

namespace volley {

namespace {

using device::DeviceBatch;
using device::Inbox;
using device::Verdict;

// How long a kernel waits for the other one: the other rank may still be checking the last batch, and its host may be
// held up. Less than the watchdog's timeout, so that the device says what it waited for.
constexpr std::uint64_t timeout_ns = 10'000'000'000;
// ... and longer for much data: no link that carries peer access is slower than 1 GB/s (PCIe 1.0 x4).
constexpr std::uint64_t timeout_ns_per_byte = 1;

static_assert(last_offset_bytes % sizeof(uint4) == 0, "the last message is aligned as the others are");

// A block's share of a long message, at least: one vector of 16 bytes for each of 256 threads.
constexpr std::size_t least_share_bytes = 4096;

struct Shape {
  unsigned blocks = 1;
  unsigned threads = device::warp_threads;
};

// `count` of something in whole multiples of `unit`.
constexpr std::size_t rounded_up(std::size_t count, std::size_t unit) { return (count + unit - 1) / unit * unit; }

constexpr unsigned threads_for(std::size_t accesses) {
  return static_cast<unsigned>(
      std::clamp<std::size_t>(rounded_up(accesses, device::warp_threads), device::warp_threads, device::most_threads));
}

// One line a thread, as far as one block goes.
constexpr Shape short_shape(std::size_t bytes) {
  return {1, threads_for(rounded_up(bytes, device::payload_bytes) / device::payload_bytes)};
}

// All blocks before more than 256 threads each, and one vector a thread before several: the more multiprocessors and
// threads, the shorter a message of middling length takes; a long one is limited by the wire in any shape.
constexpr Shape long_shape(std::size_t bytes, unsigned most_blocks) {
  const auto blocks = std::clamp<std::size_t>(rounded_up(bytes, least_share_bytes) / least_share_bytes, 1, most_blocks);
  const unsigned threads = threads_for(rounded_up(bytes / blocks, sizeof(uint4)) / sizeof(uint4));
  // A lane for each block's word.
  return {static_cast<unsigned>(blocks), std::max(threads, device::warp_threads)};
}

using Kernel = void (*)(DeviceBatch);

// Blocks that are resident together whatever the launch: a block that waited for another's place would wait for ever.
unsigned resident_blocks(Kernel kernel) {
  int device = 0;
  int processors = 0;
  int blocks = 0;
  VOLLEY_CUDA_CHECK(cudaGetDevice(&device));
  VOLLEY_CUDA_CHECK(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
  VOLLEY_CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, device::most_threads, 0));
  return static_cast<unsigned>(blocks * processors);
}

class DeviceTransport final : public Transport {
 public:
  std::string unavailable(const Context& context, const RankGroup& pair) override {
    return without_concurrent_kernels(context, pair);
  }

  void open(const Context&, const RankGroup& pair, const Buffers& buffers, std::size_t) override {
    control_ = pair.control.get();
    ranks_ = {pair.ranks[static_cast<std::size_t>(pair.self)], pair.ranks[static_cast<std::size_t>(pair.peer())]};
    leads_ = pair.leads();
    const unsigned mine =
        std::min({device::most_blocks, resident_blocks(device::long_round_trips), resident_blocks(device::windows)});
    most_blocks_ = std::min(mine, swapped(mine, pair));
    stream_ = gpu::Stream::make();
    verdict_ = gpu::PinnedBuffer(sizeof(Verdict));
    inbox_ = gpu::DeviceBuffer(sizeof(Inbox));
    inbox_there_ = gpu::IpcMapping(swapped(gpu::ipc_handle(inbox_.data()), pair));
    buffers_ = PeerBuffers(pair, buffers);
  }

  // Numbers begin anew with an empty inbox. Within one message size every line of the inbox is then written by every
  // message, so that the numbers, 32 bits in a line, may even come round again.
  void prepare(const View&) override {
    last_ = 0;
    *verdict() = {Verdict::good, 0};
    VOLLEY_CUDA_CHECK(cudaMemset(inbox_.data(), 0, sizeof(Inbox)));
    VOLLEY_CUDA_CHECK(cudaDeviceSynchronize());
    VOLLEY_MPI(MPI_Barrier(control_));  // the other rank's first message comes after this
  }

  void round_trips(const View& view, std::uint64_t exchanges) override {
    const DeviceBatch batch = batch_of(view, exchanges, 1);
    if (view.bytes > device::short_bytes)
      launch_together(device::long_round_trips, long_shape(view.bytes, most_blocks_), batch);
    else launch_short(batch);
    finish(batch);
  }

  void windows(const View& view, std::uint64_t count, const Window& window) override {
    DeviceBatch batch = batch_of(view, count, window.messages);
    const bool both = window.direction == Direction::bi;
    batch.sends = leads_ || both;
    batch.receives = !leads_ || both;
    launch_together(device::windows, long_shape(view.bytes, most_blocks_), batch);
    finish(batch);
  }

  // The other rank's mapping of the inbox goes before the inbox.
  void close() override {
    buffers_ = {};
    inbox_there_ = {};
    VOLLEY_MPI(MPI_Barrier(control_));
    inbox_ = {};
    verdict_ = {};
    stream_ = {};
  }

  [[nodiscard]] Facts facts() const override {
    return {{"flag_in_word_up_to_bytes", device::short_bytes},
            {"flag_in_word_most_threads", device::most_threads},
            {"direct_stores_most_blocks", device::most_blocks},
            {"direct_stores_most_threads_per_block", device::most_threads},
            {"streams", "direct stores at every size"},
            {"timeout_s", static_cast<double>(timeout_ns) * 1e-9}};
  }

 private:
  [[nodiscard]] Verdict* verdict() const { return reinterpret_cast<Verdict*>(verdict_.data()); }

  [[nodiscard]] DeviceBatch batch_of(const View& view, std::uint64_t count, int window) const {
    DeviceBatch batch{};
    batch.send = view.send;
    batch.recv = view.recv;
    batch.recv_there = buffers_.opposite(view.recv);
    batch.bytes = view.bytes;
    batch.last_offset = view.last_offset;
    batch.inbox = reinterpret_cast<Inbox*>(inbox_.data());
    batch.inbox_there = reinterpret_cast<Inbox*>(inbox_there_.data());
    batch.verdict = verdict();
    batch.last = last_;
    batch.count = count;
    batch.window = window;
    batch.leads = leads_;
    batch.timeout_ns = timeout_ns + timeout_ns_per_byte * view.bytes * static_cast<std::uint64_t>(window);
    return batch;
  }

  // The last message leaves from elsewhere. It has a launch of its own, which waits behind the one of all others: an
  // instruction more in the loop of that kernel would show in every exchange.
  void launch_short(const DeviceBatch& batch) {
    const bool one_line =
        rounded_up(batch.bytes, device::payload_bytes) <= device::most_threads * device::payload_bytes;
    const Kernel kernel =
        one_line ? device::short_round_trips<1> : device::short_round_trips<device::most_lines_per_thread>;
    const Shape shape = short_shape(batch.bytes);
    if (batch.last_offset == 0) return launch(kernel, shape, batch);
    DeviceBatch before = batch;
    before.count = batch.count - 1;
    DeviceBatch last = batch;
    last.send += batch.last_offset;
    last.last += before.count;
    last.count = 1;
    launch(kernel, shape, before);
    launch(kernel, shape, last);
  }

  // One block.
  void launch(Kernel kernel, const Shape& shape, const DeviceBatch& batch) {
    kernel<<<shape.blocks, shape.threads, 0, stream_.get()>>>(batch);
    VOLLEY_CUDA_CHECK(cudaGetLastError());
  }

  // Cooperative: the driver starts all blocks together, or says that it cannot.
  void launch_together(Kernel kernel, const Shape& shape, DeviceBatch batch) {
    void* arguments[] = {&batch};
    VOLLEY_CUDA_CHECK(cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(kernel), shape.blocks, shape.threads,
                                                  arguments, 0, stream_.get()));
  }

  void finish(const DeviceBatch& batch) {
    stream_.synchronize();
    if (verdict()->outcome != Verdict::good) fail(batch);
    last_ += batch.count;
  }

  [[noreturn]] void fail(const DeviceBatch& batch) const {
    const std::string other = "the device of rank " + std::to_string(ranks_[1]);
    const std::string what = (batch.window > 1 ? "window " : "message ") + std::to_string(verdict()->number) + " of " +
                             std::to_string(batch.bytes) + " B";
    if (verdict()->outcome == Verdict::deserted) {
      throw std::runtime_error("device: " + other + " gave up, and with it rank " + std::to_string(ranks_[0]) +
                               " while it waited for " + what);
    }
    throw std::runtime_error("device: the device of rank " + std::to_string(ranks_[0]) + " waited " +
                             std::to_string(batch.timeout_ns / 1'000'000'000) + " s for " + what + " from " + other +
                             ": its kernel does not run, or its stores do not arrive");
  }

  MPI_Comm control_ = MPI_COMM_NULL;
  std::array<int, 2> ranks_{};  // this rank's and the other's number in the world
  bool leads_ = false;
  unsigned most_blocks_ = 1;  // agreed: both grids are of one size
  std::uint64_t last_ = 0;    // number of the last message or window, the same on both ranks
  gpu::Stream stream_;
  gpu::PinnedBuffer verdict_;
  gpu::DeviceBuffer inbox_;
  gpu::IpcMapping inbox_there_;
  PeerBuffers buffers_;
};

}  // namespace

std::unique_ptr<Transport> make_device() { return std::make_unique<DeviceTransport>(); }

}  // namespace volley
