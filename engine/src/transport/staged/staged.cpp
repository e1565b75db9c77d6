// The transports through host memory: GPU -> host -> GPU.
//
// `staged/pageable` and `staged/pinned`: whole messages through MPI, one step after the other, as the tutorial's
// CUDA-staged version: a blocking cudaMemcpy of the message to a host buffer from malloc, MPI_Send; MPI_Recv, a
// blocking cudaMemcpy to the device. Pinned is the same with page-locked memory, which the copy engine accesses
// directly, by asynchronous copies that the host waits for.
//
// `staged/pipelined`: through MPI in chunks: while one chunk is copied from the device, MPI sends the chunk before it,
// and the chunk before that is copied to the other device.
//
// `staged/shared`: through one segment of host memory that both ranks map and register with their devices. The sender's
// copy engine writes a chunk, the receiver's reads it; neither MPI nor a processor core copies data.
#include "gpu/runtime.hpp"
#include "transport/shared_segment.hpp"
#include "transport/staged/chunks.hpp"

namespace volley {
namespace {

// Blocking copies on the default stream, as in the tutorial. A copy from pageable memory may return before its bytes
// are on the device. Later copies of the stream wait for them, but the clock and other streams do not, so a batch ends
// with synchronize().
class BlockingCopies {
 public:
  void open() {}
  void copy_out(std::byte* host, const std::byte* device, std::size_t bytes) {
    gpu::copy<gpu::to_host>(host, device, bytes);
  }
  void copy_in(std::byte* device, const std::byte* host, std::size_t bytes) {
    gpu::copy<gpu::to_device>(device, host, bytes);
  }
  void synchronize() { gpu::synchronize_default_stream(); }

  void prepare(std::uint64_t) {}
  void begin_out(std::uint64_t, std::byte* host, const std::byte* device, std::size_t bytes) {
    copy_out(host, device, bytes);
  }
  void begin_in(std::uint64_t, std::byte* device, const std::byte* host, std::size_t bytes) {
    copy_in(device, host, bytes);
  }
  [[nodiscard]] bool out_done(std::uint64_t) { return true; }
  [[nodiscard]] bool in_done(std::uint64_t) { return true; }
};

// Asynchronous copies from and to pinned memory, with a stream for each direction and an event after each copy.
class AsyncCopies {
 public:
  void open() {
    out_.cuda_stream = gpu::Stream::make();
    in_.cuda_stream = gpu::Stream::make();
  }
  void copy_out(std::byte* host, const std::byte* device, std::size_t bytes) {
    gpu::copy_async<gpu::to_host>(host, device, bytes, out_.cuda_stream.get());
    out_.cuda_stream.synchronize();
  }
  void copy_in(std::byte* device, const std::byte* host, std::size_t bytes) {
    gpu::copy_async<gpu::to_device>(device, host, bytes, in_.cuda_stream.get());
    in_.cuda_stream.synchronize();
  }
  void synchronize() {}  // every copy was seen complete

  void prepare(std::uint64_t slots) {
    for (auto* direction : {&out_, &in_}) {
      while (direction->events.size() < slots) direction->events.push_back(gpu::Event::make());
    }
  }
  void begin_out(std::uint64_t slot, std::byte* host, const std::byte* device, std::size_t bytes) {
    gpu::copy_async<gpu::to_host>(host, device, bytes, out_.cuda_stream.get());
    out_.events[slot].record(out_.cuda_stream);
  }
  void begin_in(std::uint64_t slot, std::byte* device, const std::byte* host, std::size_t bytes) {
    gpu::copy_async<gpu::to_device>(device, host, bytes, in_.cuda_stream.get());
    in_.events[slot].record(in_.cuda_stream);
  }
  [[nodiscard]] bool out_done(std::uint64_t slot) { return out_.events[slot].complete(); }
  [[nodiscard]] bool in_done(std::uint64_t slot) { return in_.events[slot].complete(); }

 private:
  struct CopyStream {
    gpu::Stream cuda_stream;
    std::vector<gpu::Event> events;  // one for each slot
  };
  CopyStream out_;
  CopyStream in_;
};

// `Buffer` is the kind of host memory, `Copies` how it is copied.
template <class Buffer, class Copies>
class WholeChannel : public ChunkPipeline<MpiChunks<Buffer>, Copies> {
 public:
  void prepare(const View& view) {
    this->transport().prepare(view);
    ChunkPipeline<MpiChunks<Buffer>, Copies>::prepare(view.bytes, window_layout(view.bytes));
  }
  void close() {
    bounce_ = {};
    ChunkPipeline<MpiChunks<Buffer>, Copies>::close();
  }
  // Those who exchange halos say so with a window both ways.
  [[nodiscard]] static std::uint64_t host_memory_bytes(std::uint64_t bytes, const std::optional<Window>& window) {
    if (!window) return bytes;
    const std::uint64_t one_way = window_layout(bytes).ring_bytes();
    return window->direction == Direction::bi ? 2 * std::max(one_way, bytes) : one_way;
  }

  // A round trip uses one buffer of the message's size for both directions, as in the tutorial.
  void reserve_bounce(std::size_t bytes) { bounce_.reserve(bytes); }
  void send(const View& view) {
    this->copies().copy_out(bounce_.data(), view.send, view.bytes);
    this->transport().send({bounce_.data(), nullptr, view.bytes});
  }
  void recv(const View& view) {
    this->transport().recv({nullptr, bounce_.data(), view.bytes});
    this->copies().copy_in(view.recv, bounce_.data(), view.bytes);
  }

 private:
  // The messages of a window are not divided (unless MPI cannot count their bytes). They share as many slots as this
  // memory has room for, and at least two, so that one message can be copied while another is sent.
  static constexpr std::size_t window_bytes = std::size_t{64} << 20;
  [[nodiscard]] static ChunkLayout window_layout(std::uint64_t bytes) {
    ChunkLayout layout{std::min<std::uint64_t>(bytes, longest_mpi_chunk)};
    layout.slots = std::clamp<std::size_t>(window_bytes / layout.stride(), 2, max_slots);
    return layout;
  }

  GrowingBuffer<Buffer> bounce_;
};

// Whole messages and halos. Halos are copied on the stream of the kernels that compute. A copy to pageable memory keeps
// the host until the stream has executed it, as in the normal MPI version of NVIDIA's Jacobi example.
template <class Buffer, class Copies>
class Whole : public HostDriven<WholeChannel<Buffer, Copies>>, public HaloExchange {
  using Base = HostDriven<WholeChannel<Buffer, Copies>>;

 public:
  // A window needs a place in host memory for each message in flight, because MPI still reads or writes it.
  void prepare(const View& view, const std::optional<Window>& window) override {
    Base::prepare(view, window);
    if (!window) this->channel_.reserve_bounce(view.bytes);
    else this->channel_.transport().reserve(window->sends(this->leads_), window->receives(this->leads_));
  }

  // At the end of the batch the last message must be usable; its copy may return before that.
  void round_trips(const View& view, std::uint64_t exchanges) override {
    Base::round_trips(view, exchanges);
    this->channel_.copies().synchronize();
  }

  [[nodiscard]] HaloExchange* halo() override { return this; }
  void open_halo(const View& view) override {
    this->channel_.transport().prepare(view);
    halo_out_ = Buffer(view.bytes);
    halo_in_ = Buffer(view.bytes);
  }
  [[nodiscard]] bool staged_through_host() const override { return true; }
  void enqueue_send(const View& view, gpu::StreamHandle cuda_stream) override {
    gpu::copy_async<gpu::to_host>(halo_out_.data(), view.send, view.bytes, cuda_stream);
  }
  void start(const View& view) override {
    const View host{halo_out_.data(), halo_in_.data(), view.bytes};
    this->channel_.transport().start_recv(host);
    this->channel_.transport().start_send(host);
  }
  void progress() override { this->channel_.transport().progress(); }
  void finish() override { this->channel_.transport().finish(); }
  void enqueue_recv(const View& view, gpu::StreamHandle cuda_stream) override {
    gpu::copy_async<gpu::to_device>(view.recv, halo_in_.data(), view.bytes, cuda_stream);
  }
  void close() override {
    Base::close();
    halo_out_ = {};
    halo_in_ = {};
  }

 private:
  Buffer halo_out_;
  Buffer halo_in_;
};

// Ordinary host memory, as malloc gives it.
class PageableBuffer {
 public:
  PageableBuffer() = default;
  // Touches every page, so that the first message does not.
  explicit PageableBuffer(std::size_t bytes) : data_(std::make_unique<std::byte[]>(bytes)) {}
  [[nodiscard]] std::byte* data() const noexcept { return data_.get(); }

 private:
  std::unique_ptr<std::byte[]> data_;
};

// In a collective, what a rank sends is copied to page-locked host memory, MPI's collective works there, and what it
// receives is copied to the device, one after the other.
class StagedPinned final : public Whole<gpu::PinnedBuffer, AsyncCopies>, public MpiCollectives {
 public:
  void close() override {
    Whole::close();
    sent_ = {};
    received_ = {};
  }

  [[nodiscard]] Collectives* collectives() override { return this; }
  [[nodiscard]] std::uint64_t collective_memory_bytes(std::uint64_t bytes) const override { return 2 * bytes; }

  void prepare_for(const Collective& collective, const View& view) override {
    sent_.reserve(collective.sent_bytes(view.bytes));
    received_.reserve(collective.received_bytes(view.bytes));
  }

  void perform(const Collective& collective, const View& view, std::uint64_t count) override {
    const MpiCall call = mpi_call(collective, view.bytes);
    const std::size_t sent = collective.sent_bytes(view.bytes);
    const std::size_t received = collective.received_bytes(view.bytes);
    const std::size_t place = collective.place(view.bytes);
    for_each_operation(view, count, [&](const View& here) {
      if (call.in_place) channel_.copies().copy_out(received_.data() + place, here.recv + place, sent);
      else if (sent > 0) channel_.copies().copy_out(sent_.data(), here.send, sent);
      blocking_collectives(call, sent_.data(), received_.data());
      if (received > 0) channel_.copies().copy_in(here.recv, received_.data(), received);
    });
  }

 private:
  GrowingBuffer<gpu::PinnedBuffer> sent_;
  GrowingBuffer<gpu::PinnedBuffer> received_;
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

// The ring has room for four of the largest chunks: one a stage, and one more so that none waits for another.
constexpr ChunkPolicy pipelined_policy{pipelined_rows, 4 * mib};

class PipelinedChannel : public ChunkPipeline<MpiChunks<gpu::PinnedBuffer>, AsyncCopies> {
 public:
  void prepare(const View& view) {
    ChunkPipeline::prepare(view.bytes, pipelined_policy.of(view.bytes));
    transport().reserve(true, true);
  }
  [[nodiscard]] static std::uint64_t host_memory_bytes(std::uint64_t, const std::optional<Window>&) {
    return 2 * pipelined_policy.ring_bytes;
  }
  [[nodiscard]] static Json facts() { return pipelined_policy.facts(); }
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

class SharedChannel : public ChunkPipeline<SegmentChunks, AsyncCopies> {
 public:
  [[nodiscard]] static std::string unavailable(const Context& context, const RankGroup& pair) {
    return on_two_nodes(context, pair, "which share no memory");
  }

  void open(const RankGroup& pair, const Buffers&) {
    segment_ = make_pair_segment(pair, segment_bytes, SegmentChunks::initialise);
    registration_ = gpu::Registration(segment_.data(), segment_bytes);
    reset();
    transport().open(segment_.data(), shared_policy.ring_bytes, pair.self);
    copies().open();
  }
  void prepare(const View& view) { ChunkPipeline::prepare(view.bytes, shared_policy.of(view.bytes)); }
  void close() {
    clear();
    copies() = {};
    registration_ = {};
    segment_ = {};
  }
  [[nodiscard]] static std::uint64_t host_memory_bytes(std::uint64_t, const std::optional<Window>&) {
    return 2 * shared_policy.ring_bytes;
  }
  [[nodiscard]] static Json facts() { return shared_policy.facts(); }

 private:
  SharedSegment segment_;
  gpu::Registration registration_;
};

}  // namespace

std::unique_ptr<Transport> make_staged_pageable() { return std::make_unique<Whole<PageableBuffer, BlockingCopies>>(); }
std::unique_ptr<Transport> make_staged_pinned() { return std::make_unique<StagedPinned>(); }
std::unique_ptr<Transport> make_staged_pipelined() {
  return std::make_unique<HostDriven<AwaitingEach<PipelinedChannel>>>();
}
std::unique_ptr<Transport> make_staged_shared() { return std::make_unique<HostDriven<AwaitingEach<SharedChannel>>>(); }

}  // namespace volley
