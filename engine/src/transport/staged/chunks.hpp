// The two chunk transports of a pipeline: through MPI, and through memory that both ranks map.
#pragma once

#include <atomic>
#include <new>

#include "mpi/mpi.hpp"
#include "transport/staged/chunk_pipeline.hpp"

namespace volley {

// Chunks are at most this long: MPI counts bytes with an int.
inline constexpr std::size_t longest_mpi_chunk = std::size_t{1} << 30;

// Host memory of the kind `Buffer`: PageableBuffer or gpu::PinnedBuffer. When it grows, its contents are lost.
template <class Buffer>
class GrowingBuffer {
 public:
  void reserve(std::size_t bytes) {
    if (bytes <= bytes_) return;
    buffer_ = {};  // before the new one is allocated: memory may not have room for both
    bytes_ = 0;
    buffer_ = Buffer(bytes);
    bytes_ = bytes;
  }
  [[nodiscard]] std::byte* data() const noexcept { return buffer_.data(); }

 private:
  Buffer buffer_;
  std::size_t bytes_ = 0;
};

// Sends its chunks through MPI, from and to its own host memory.
template <class Buffer>
class MpiChunks {
 public:
  static constexpr bool sends_at_once = false;

  void open(const RankGroup& pair) {
    comm_ = pair.data.get();
    peer_ = pair.peer();
  }

  void prepare(const ChunkLayout& layout) {
    stride_ = layout.stride();
    sending_.assign(layout.slots, MPI_REQUEST_NULL);
    receiving_.assign(layout.slots, MPI_REQUEST_NULL);
  }

  // Allocates the slots of the directions that are used, unless the present memory is large enough.
  void reserve(bool sends, bool receives) {
    if (sends) out_.reserve(sending_.size() * stride_);
    if (receives) in_.reserve(receiving_.size() * stride_);
  }
  void free() {
    out_ = {};
    in_ = {};
  }

  [[nodiscard]] std::byte* out_slot(std::uint64_t slot) { return out_.data() + slot * stride_; }
  [[nodiscard]] std::byte* in_slot(std::uint64_t slot) { return in_.data() + slot * stride_; }

  void send(std::uint64_t, std::uint64_t slot, std::size_t bytes) {
    VOLLEY_MPI(MPI_Isend(out_slot(slot), static_cast<int>(bytes), MPI_BYTE, peer_, chunk_tag, comm_, &sending_[slot]));
  }
  [[nodiscard]] bool sent(std::uint64_t, std::uint64_t slot) { return complete(sending_[slot]); }

  void expect(std::uint64_t, std::uint64_t slot, std::size_t bytes) {
    VOLLEY_MPI(MPI_Irecv(in_slot(slot), static_cast<int>(bytes), MPI_BYTE, peer_, chunk_tag, comm_, &receiving_[slot]));
  }
  [[nodiscard]] bool arrived(std::uint64_t, std::uint64_t slot) { return complete(receiving_[slot]); }
  void release(std::uint64_t, std::uint64_t) {}

 private:
  static constexpr int chunk_tag = 30;

  static bool complete(MPI_Request& request) {
    int done = 0;
    VOLLEY_MPI(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
    return done != 0;
  }

  MPI_Comm comm_ = MPI_COMM_NULL;
  int peer_ = 0;
  std::size_t stride_ = 0;
  std::vector<MPI_Request> sending_;
  std::vector<MPI_Request> receiving_;
  GrowingBuffer<Buffer> out_;
  GrowingBuffer<Buffer> in_;
};

// Its slots are in memory that both ranks map. Nothing is sent: two counts say which rank may use which slot.
//
// Each direction is a ring with one writer and one reader. `filled` counts the chunks that the sender has written,
// `emptied` those that the receiver has read. Each count is written by one side only and has its own cache lines. The
// sender increases `filled` (release) when its host has seen the copy from the device complete: the bytes are then in
// host memory, visible to a thread that reads the count (acquire). The receiver increases `emptied` when its host has
// seen the copy to its device complete. So the last value of `emptied` means that everything has arrived.
//
// Instead, the GPU could write the counts in stream order (cuStreamWriteValue32), and the other GPU could wait for them
// (cuStreamWaitValue32). That saves the sender's host a query, half a microsecond, and gains no bandwidth, because the
// copies of several chunks are enqueued ahead in both cases; but a wait in a stream has no deadline and cannot be
// cancelled, and a write in a stream costs the GPU as much between copies as the event.
class SegmentChunks {
 public:
  static constexpr bool sends_at_once = true;

  [[nodiscard]] static constexpr std::size_t segment_bytes(std::size_t ring_bytes) {
    return header_bytes + 2 * ring_bytes;
  }
  // Writes the counts of a new segment. Called once, before a rank opens it.
  static void initialise(std::byte* segment) { new (segment) Header; }

  // `self` 0 sends through the first ring and receives through the second, 1 the other way round.
  void open(std::byte* segment, std::size_t ring_bytes, int self) {
    auto* header = std::launder(reinterpret_cast<Header*>(segment));
    std::byte* rings = segment + header_bytes;
    const std::size_t out = self == 0 ? 0 : 1;
    out_ = {&header->counts[out], rings + out * ring_bytes};
    in_ = {&header->counts[1 - out], rings + (1 - out) * ring_bytes};
  }

  void prepare(const ChunkLayout& layout) { stride_ = layout.stride(); }

  [[nodiscard]] std::byte* out_slot(std::uint64_t slot) { return out_.slots + slot * stride_; }
  [[nodiscard]] std::byte* in_slot(std::uint64_t slot) { return in_.slots + slot * stride_; }

  void send(std::uint64_t chunk, std::uint64_t, std::size_t) {
    out_.counts->filled.store(chunk + 1, std::memory_order_release);
  }
  [[nodiscard]] bool sent(std::uint64_t chunk, std::uint64_t) {
    return out_.counts->emptied.load(std::memory_order_acquire) > chunk;
  }
  void expect(std::uint64_t, std::uint64_t, std::size_t) {}
  [[nodiscard]] bool arrived(std::uint64_t chunk, std::uint64_t) {
    return in_.counts->filled.load(std::memory_order_acquire) > chunk;
  }
  void release(std::uint64_t chunk, std::uint64_t) { in_.counts->emptied.store(chunk + 1, std::memory_order_release); }

 private:
  // Two lines of 64 bytes: processors fetch lines in pairs.
  static constexpr std::size_t line_bytes = 128;
  static constexpr std::size_t header_bytes = 4096;  // a page, so that the rings begin on one

  struct Counts {
    alignas(line_bytes) std::atomic<std::uint64_t> filled{0};
    alignas(line_bytes) std::atomic<std::uint64_t> emptied{0};
  };
  struct Header {
    Counts counts[2];
  };
  static_assert(sizeof(Header) <= header_bytes);
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "two processes share the counts");

  struct Ring {
    Counts* counts = nullptr;
    std::byte* slots = nullptr;
  };

  Ring out_;
  Ring in_;
  std::size_t stride_ = 0;
};

}  // namespace volley
