// `staged/pageable` and `staged/pinned`: GPU -> host -> MPI -> host -> GPU, whole messages, one step after the other.
//
// Pageable makes the calls of the tutorial's CUDA-staged version: a blocking cudaMemcpy of the whole message to a host
// buffer from malloc, MPI_Send; MPI_Recv, a blocking cudaMemcpy to the device. Pinned is the same with page-locked
// memory.
#include <algorithm>

#include "gpu/runtime.hpp"
#include "transport/collectives.hpp"
#include "transport/host_driven.hpp"
#include "transport/staged/chunks.hpp"
#include "transport/staged/copies.hpp"

namespace volley {

namespace {

// `Buffer` is the kind of host memory, `Copies` how it is copied; see copies.hpp.
template <class Buffer, class Copies>
class WholeChannel {
 public:
  void open(const RankGroup& pair, const Buffers& buffers) {
    leads_ = pair.leads();
    mpi_.open(pair, buffers);
    window_.transport().open(pair);
    window_.copies().open();
  }

  // Frees the bounce buffer of the last message size. reserve_bounce() or reserve_window() allocates what this size
  // needs; the memory of windows only grows.
  void prepare(const View& view) {
    mpi_.prepare(view);
    bounce_ = {};
    window_.prepare(view.bytes, window_layout(view.bytes));
  }

  [[nodiscard]] static std::uint64_t host_memory_bytes(std::uint64_t bytes, const std::optional<Window>& window) {
    if (!window) return bytes;
    return (window->direction == Direction::bi ? 2 : 1) * window_layout(bytes).ring_bytes();
  }

  void close() {
    mpi_.close();
    bounce_ = {};
    window_.transport().free();
    window_.copies().close();
  }

  // A round trip uses one buffer of the message's size for both directions, as in the tutorial.
  void reserve_bounce(std::size_t bytes) {
    if (bounce_.data() == nullptr) bounce_ = Buffer(bytes);
  }
  void send(const View& view) {
    window_.copies().copy_out(bounce_.data(), view.send, view.bytes);
    mpi_.send({bounce_.data(), nullptr, view.bytes});
  }
  void recv(const View& view) {
    mpi_.recv({nullptr, bounce_.data(), view.bytes});
    window_.copies().copy_in(view.recv, bounce_.data(), view.bytes);
  }
  void synchronize() { window_.copies().synchronize(); }

  // A window needs a place in host memory for each message in flight, because MPI still reads or writes it.
  void reserve_window(const Window& window) {
    window_.transport().reserve(window.sends(leads_), window.receives(leads_));
  }
  void start_send(const View& view) { window_.add_send(view); }
  void start_recv(const View& view) { window_.add_recv(view); }
  void finish() { window_.run(); }
  void acknowledge() { mpi_.acknowledge(); }
  void await_acknowledgement() { mpi_.await_acknowledgement(); }

  // MPI alone, from and to host memory.
  [[nodiscard]] MpiChannel& mpi() { return mpi_; }

 private:
  // The messages of a window are not divided (unless MPI cannot count their bytes). They share as many slots as this
  // memory has room for, and at least two, so that one message can be copied while another is sent.
  static constexpr std::size_t window_bytes = std::size_t{64} << 20;
  [[nodiscard]] static ChunkLayout window_layout(std::uint64_t bytes) {
    ChunkLayout layout{std::min<std::uint64_t>(bytes, longest_mpi_chunk)};
    layout.slots = std::clamp<std::size_t>(window_bytes / layout.stride(), 2, max_slots);
    return layout;
  }

  bool leads_ = false;
  MpiChannel mpi_;
  Buffer bounce_;
  ChunkPipeline<MpiChunks<Buffer>, Copies> window_;
};

template <class Buffer, class Copies>
class Whole : public HostDriven<WholeChannel<Buffer, Copies>> {
  using Base = HostDriven<WholeChannel<Buffer, Copies>>;

 public:
  // The empty samples, which come first, allocate the host memory. At the end of the batch the last message must be
  // usable; its copy may return before that.
  void round_trips(const View& view, std::uint64_t exchanges) override {
    this->channel_.reserve_bounce(view.bytes);
    Base::round_trips(view, exchanges);
    this->channel_.synchronize();
  }

  void windows(const View& view, std::uint64_t count, const Window& window) override {
    this->channel_.reserve_window(window);
    Base::windows(view, count, window);
  }
};

// `staged/pinned`: whole messages through page-locked host memory, which the copy engine accesses directly, by
// asynchronous copies that the host waits for. Halos are copied on the stream of the kernels that compute.
class StagedPinned final : public Whole<gpu::PinnedBuffer, AsyncCopies>, public Halo {
 public:
  [[nodiscard]] Halo* halo() override { return this; }
  void open_halo(const View& view) override {
    channel_.mpi().prepare(view);
    halo_out_ = gpu::PinnedBuffer(view.bytes);
    halo_in_ = gpu::PinnedBuffer(view.bytes);
  }
  // Those who exchange halos say so with a window both ways.
  [[nodiscard]] std::uint64_t host_memory_bytes(std::uint64_t bytes,
                                                const std::optional<Window>& window) const override {
    const std::uint64_t messages = Whole::host_memory_bytes(bytes, window);
    return window && window->direction == Direction::bi ? std::max(messages, 2 * bytes) : messages;
  }
  [[nodiscard]] bool staged_through_host() const override { return true; }
  void enqueue_send(const View& view, gpu::StreamHandle cuda_stream) override {
    gpu::copy_to_host_async(halo_out_.data(), view.send, view.bytes, cuda_stream);
  }
  void start(const View& view) override {
    const View host{halo_out_.data(), halo_in_.data(), view.bytes};
    channel_.mpi().start_recv(host);
    channel_.mpi().start_send(host);
  }
  void progress() override { channel_.mpi().progress(); }
  void finish() override { channel_.mpi().finish(); }
  void enqueue_recv(const View& view, gpu::StreamHandle cuda_stream) override {
    gpu::copy_to_device_async(view.recv, halo_in_.data(), view.bytes, cuda_stream);
  }
  void close() override {
    Whole::close();
    halo_out_ = {};
    halo_in_ = {};
  }

 private:
  gpu::PinnedBuffer halo_out_;
  gpu::PinnedBuffer halo_in_;
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

// What a rank sends is copied to page-locked host memory, MPI's collective works there, and what it receives is copied
// to the device, one after the other.
class StagedCollectives final : public MpiCollectives {
 public:
  void open(const RankGroup& group, const Buffers& buffers) override {
    MpiCollectives::open(group, buffers);
    copies_.open();
  }
  void close() override {
    copies_.close();
    sent_ = {};
    received_ = {};
  }

  // What is sent and what is received.
  [[nodiscard]] std::uint64_t host_memory_bytes(std::uint64_t bytes, const std::optional<Window>&) const override {
    return 2 * bytes;
  }

  void prepare_for(const Collective& collective, const View& view) override {
    sent_.reserve(collective.sent_bytes(view.bytes));
    received_.reserve(collective.received_bytes(view.bytes));
  }

  void perform(const Collective& collective, const View& view, std::uint64_t count) override {
    const Call call = call_of(collective, view);
    const std::size_t sent = collective.sent_bytes(view.bytes);
    const std::size_t received = collective.received_bytes(view.bytes);
    for_each_operation(view, count, [&](const View& here) {
      if (sent > 0) copies_.copy_out(sent_.data(), here.send, sent);
      once(call, sent_.data(), received_.data());
      if (received > 0) copies_.copy_in(here.recv, received_.data(), received);
    });
  }

 private:
  AsyncCopies copies_;
  GrowingBuffer<gpu::PinnedBuffer> sent_;
  GrowingBuffer<gpu::PinnedBuffer> received_;
};

}  // namespace

std::unique_ptr<Transport> make_staged_pageable() { return std::make_unique<Whole<PageableBuffer, BlockingCopies>>(); }
std::unique_ptr<Transport> make_staged_pinned() { return std::make_unique<StagedPinned>(); }
std::unique_ptr<Transport> make_staged_collectives() { return std::make_unique<StagedCollectives>(); }

}  // namespace volley
