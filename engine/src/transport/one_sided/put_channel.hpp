// Messages by MPI_Put into the receiver's buffer, and a notification when MPI_Win_flush has completed them there.
#pragma once

#include "transport/mpi_channel.hpp"
#include "transport/one_sided/notifications.hpp"

namespace volley::one_sided {

class PutChannel : public MpiChannel {
 public:
  void open(const Context& context, const RankGroup& pair, const Buffers& buffers, std::size_t capacity) {
    MpiChannel::open(context, pair, buffers, capacity);
    buffers_.open(pair, buffers);
    notifications_.open(pair);
  }

  void close() {
    notifications_.close();
    buffers_.close();
    MpiChannel::close();
  }

  void send(const View& view) {
    put(view);
    complete();
    notifications_.notify();
  }

  void recv(const View& view) {
    notifications_.await();
    see(view);
  }

  void start_send(const View& view) {
    put(view);
    sending_ = true;
  }

  void start_recv(const View& view) {
    receiving_ = true;
    arriving_ = view;
  }

  void finish() {
    if (std::exchange(sending_, false)) {
      complete();
      notifications_.notify();
    }
    if (std::exchange(receiving_, false)) {
      notifications_.await();
      see(arriving_);
    }
  }

  void acknowledge() { notifications_.notify(); }
  void await_acknowledgement() { notifications_.await(); }

 protected:
  void put(const View& view) {
    const auto [window, offset] = buffers_.place(view.recv);
    VOLLEY_MPI(MPI_Put(view.send, count_, type_, peer_, offset, count_, type_, window));
    window_ = window;
  }

  // The messages that were put are in the other rank's memory.
  void complete() { VOLLEY_MPI(MPI_Win_flush(peer_, window_)); }

  Notifications notifications_;
  bool sending_ = false;

 private:
  // What was put into this rank's window is in its memory.
  void see(const View& view) { VOLLEY_MPI(MPI_Win_sync(buffers_.place(view.recv).window)); }

  ExposedBuffers buffers_{Epoch::passive};
  MPI_Win window_ = MPI_WIN_NULL;  // of the latest message
  View arriving_;
  bool receiving_ = false;
};

}  // namespace volley::one_sided
