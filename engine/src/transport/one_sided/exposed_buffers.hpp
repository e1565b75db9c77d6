// The message buffers of a pair as windows of MPI.
#pragma once

#include <mpi.h>

#include "host/memory.hpp"
#include "mpi/rma_window.hpp"
#include "transport/agreement.hpp"

namespace volley::one_sided {

// Makes a window on both ranks, or throws on both. Collective over the pair.
template <class Make>
[[nodiscard]] RmaWindow agreed_window(const RankGroup& pair, const Make& make) {
  RmaWindow window;
  agreed_step(pair, [&] { window = make(); });
  const char* const separate = "the windows of this MPI have separate memory: a rank does not see what it was sent";
  const std::string reason = agreed_reason(pair, window.unified() ? "" : separate);
  if (reason.empty()) return window;
  window = RmaWindow();  // frees it on both ranks, which is not possible while an exception unwinds them
  throw std::runtime_error(reason);
}

// How calls on the windows are synchronised.
enum class Epoch {
  passive,  // MPI_Win_lock_all, from open to close; calls are completed by MPI_Win_flush
  fenced,   // between two calls of MPI_Win_fence
};

class ExposedBuffers {
 public:
  explicit ExposedBuffers(Epoch epoch) : epoch_(epoch) {}

  // Collective over the pair.
  void open(const RankGroup& pair, const Buffers& buffers) {
    buffers_ = buffers;
    const std::size_t bytes = buffers.capacity + fill_room_bytes;
    send_ = agreed_window(pair, [&] { return RmaWindow::over(buffers.send, bytes, pair.data.get()); });
    recv_ = agreed_window(pair, [&] { return RmaWindow::over(buffers.recv, bytes, pair.data.get()); });
    if (epoch_ == Epoch::fenced) return;
    agreed_step(pair, [&] {
      for (RmaWindow* window : {&send_, &recv_}) window->lock_all();
    });
  }

  // Collective over the pair; also after an open() that failed.
  void close() {
    for (RmaWindow* window : {&send_, &recv_}) {
      if (!*window) continue;
      if (epoch_ == Epoch::fenced) VOLLEY_MPI(MPI_Win_fence(MPI_MODE_NOSUCCEED, window->get()));
      window->unlock_all();
      *window = RmaWindow();
    }
  }

  // A place in one of the buffers; the same on both ranks.
  struct Place {
    MPI_Win window;
    MPI_Aint offset;
  };
  [[nodiscard]] Place place(const std::byte* at) const {
    // With fixed sampling a ping-pong receives in the send buffer.
    const bool sent = at >= buffers_.send && at < buffers_.send + buffers_.capacity + fill_room_bytes;
    return sent ? Place{send_.get(), at - buffers_.send} : Place{recv_.get(), at - buffers_.recv};
  }

 private:
  Epoch epoch_;
  Buffers buffers_;
  RmaWindow send_;
  RmaWindow recv_;
};

}  // namespace volley::one_sided
