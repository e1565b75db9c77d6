// What channels of one-sided MPI have in common whose receivers are told of messages by notifications.
#pragma once

#include "transport/mpi_channel.hpp"
#include "transport/one_sided/notifications.hpp"

namespace volley::one_sided {

class NotifiedChannel : public MpiChannel {
 public:
  void open(const RankGroup& pair, const Buffers& buffers) {
    MpiChannel::open(pair, buffers);
    buffers_.open(pair, buffers);
    notifications_.open(pair);
  }

  void close() {
    notifications_.close();
    buffers_.close();
    MpiChannel::close();
  }

  void acknowledge() { notifications_.notify(); }
  void await_acknowledgement() { notifications_.await(); }

 protected:
  // What was put is in the other rank's memory, what was fetched in this rank's.
  void complete() { VOLLEY_MPI(MPI_Win_flush(peer_, window_)); }

  ExposedBuffers buffers_{Epoch::passive};
  Notifications notifications_;
  MPI_Win window_ = MPI_WIN_NULL;  // of the latest message
  bool sending_ = false;
};

}  // namespace volley::one_sided
