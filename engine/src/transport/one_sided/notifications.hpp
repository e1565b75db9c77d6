// How a rank tells the other one that data is in place: calls of one-sided MPI return only on the rank that makes them.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstdint>

#include "transport/one_sided/exposed_buffers.hpp"

namespace volley::one_sided {

// Each rank counts its notifications in a byte of the other rank's memory; a byte cannot arrive half. "The data is
// there" and "acknowledged" follow each other in an order that both ranks know, so that one count is enough.
class Notifications {
 public:
  // Collective over the pair.
  void open(const RankGroup& pair) {
    comm_ = pair.data.get();
    peer_ = pair.peer();
    sent_ = awaited_ = 0;
    void* memory = nullptr;
    window_ = agreed_window(pair, [&] {
      RmaWindow window = RmaWindow::allocate(line_bytes, pair.data.get(), memory);
      received_ = static_cast<std::uint8_t*>(memory);
      *received_ = 0;
      return window;
    });
    agreed_step(pair, [&] { window_.lock_all(); });
  }

  // Collective over the pair; also after an open() that failed.
  void close() {
    window_.unlock_all();
    window_ = RmaWindow();
  }

  void notify() {
    ++sent_;
    VOLLEY_MPI(MPI_Put(&sent_, 1, MPI_BYTE, peer_, 0, 1, MPI_BYTE, window_.get()));
    VOLLEY_MPI(MPI_Win_flush(peer_, window_.get()));
  }

  // Waits for the next notification. An MPI may move the other rank's data only during calls of this rank: MPI_Iprobe
  // is one, MPI_Win_sync need not be.
  void await() {
    ++awaited_;
    while (missing()) {
      int arrived = 0;
      VOLLEY_MPI(MPI_Win_sync(window_.get()));
      VOLLEY_MPI(MPI_Iprobe(peer_, MPI_ANY_TAG, comm_, &arrived, MPI_STATUS_IGNORE));
    }
  }

 private:
  static constexpr std::size_t line_bytes = 64;

  // The other rank may be ahead by a few notifications, and the count begins again after 255.
  [[nodiscard]] bool missing() const {
    const std::uint8_t received = std::atomic_ref(*received_).load(std::memory_order_acquire);
    return static_cast<std::int8_t>(received - awaited_) < 0;
  }

  MPI_Comm comm_ = MPI_COMM_NULL;
  int peer_ = 0;
  RmaWindow window_;
  std::uint8_t* received_ = nullptr;
  std::uint8_t sent_ = 0;
  std::uint8_t awaited_ = 0;
};

}  // namespace volley::one_sided
