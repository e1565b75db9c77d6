// The chunk transport of a pipeline that sends its chunks through MPI, from and to its own host memory.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "mpi/check.hpp"
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

}  // namespace volley
