// Messages by MPI_Put into the receiver's buffer, and a notification when MPI_Win_flush has completed them there.
#pragma once

#include "transport/one_sided/notified_channel.hpp"

namespace volley::one_sided {

class PutChannel : public NotifiedChannel {
 public:
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

 protected:
  void put(const View& view) {
    const auto [window, offset] = buffers_.place(view.recv);
    VOLLEY_MPI(MPI_Put(view.send, count_, type_, peer_, offset, count_, type_, window));
    window_ = window;
  }

 private:
  // What was put into this rank's window is in its memory.
  void see(const View& view) { VOLLEY_MPI(MPI_Win_sync(buffers_.place(view.recv).window)); }

  View arriving_;
  bool receiving_ = false;
};

}  // namespace volley::one_sided
