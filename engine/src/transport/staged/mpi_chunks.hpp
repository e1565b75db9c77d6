// The link of a pipeline that lets its chunks travel through MPI, from and to host memory of its own.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "group/context.hpp"
#include "transport/staged/chunk_pipeline.hpp"

namespace volley {

// Chunks are at most this long: MPI counts bytes with an int.
inline constexpr std::size_t longest_mpi_chunk = std::size_t{1} << 30;

// `Buffer` is the kind of host memory; see handles/.
template <class Buffer>
class MpiChunks {
 public:
  static constexpr bool leaves_at_once = false;

  void open(const RankGroup& pair) {
    comm_ = pair.data.get();
    peer_ = pair.peer();
  }

  void prepare(const ChunkLayout& cut) {
    stride_ = cut.stride();
    sending_.assign(cut.places, MPI_REQUEST_NULL);
    receiving_.assign(cut.places, MPI_REQUEST_NULL);
  }

  // Takes the host memory of the places as prepared, of the directions that are used; what is there and suffices stays.
  void reserve(bool sends, bool receives) {
    if (sends) out_.reserve(sending_.size() * stride_);
    if (receives) in_.reserve(receiving_.size() * stride_);
  }
  void release() {
    out_ = {};
    in_ = {};
  }

  [[nodiscard]] std::byte* out_place(std::uint64_t place) { return out_.buffer.data() + place * stride_; }
  [[nodiscard]] std::byte* in_place(std::uint64_t place) { return in_.buffer.data() + place * stride_; }

  void hand_over(std::uint64_t, std::uint64_t place, std::size_t bytes) {
    VOLLEY_MPI(
        MPI_Isend(out_place(place), static_cast<int>(bytes), MPI_BYTE, peer_, chunk_tag, comm_, &sending_[place]));
  }
  [[nodiscard]] bool cleared(std::uint64_t, std::uint64_t place) { return complete(sending_[place]); }

  void expect(std::uint64_t, std::uint64_t place, std::size_t bytes) {
    VOLLEY_MPI(
        MPI_Irecv(in_place(place), static_cast<int>(bytes), MPI_BYTE, peer_, chunk_tag, comm_, &receiving_[place]));
  }
  [[nodiscard]] bool arrived(std::uint64_t, std::uint64_t place) { return complete(receiving_[place]); }
  void give_back(std::uint64_t, std::uint64_t) {}

 private:
  static constexpr int chunk_tag = 30;

  struct HostRing {
    Buffer buffer;
    std::size_t bytes = 0;
    void reserve(std::size_t wanted) {
      if (wanted <= bytes) return;
      buffer = {};  // before the new one: both need not fit
      buffer = Buffer(wanted);
      bytes = wanted;
    }
  };

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
  HostRing out_;
  HostRing in_;
};

}  // namespace volley
