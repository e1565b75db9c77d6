// Staging of whole messages: device -> host, MPI, host -> device, one after the other.
#pragma once

#include <algorithm>

#include "transport/host_driven.hpp"
#include "transport/mpi_channel.hpp"
#include "transport/staged/copies.cuh"
#include "transport/staged/mpi_chunks.hpp"

namespace volley {

// `Buffer` is the kind of host memory, `Copies` how it is copied; see copies.cuh.
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

}  // namespace volley
