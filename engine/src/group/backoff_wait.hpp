// Waits without keeping a core busy. MPI polls while it waits: if there are more ranks than cores, waiting ranks would
// take time from the pair that measures.
#pragma once

#include <unistd.h>

#include "group/context.hpp"
#include "measure/watchdog.hpp"

namespace volley {

class BackoffWait {
 public:
  BackoffWait(const Context& context, Watchdog& watchdog)
      : world_(context.world.get()),
        watchdog_(watchdog),
        longest_us_(std::min(poll_interval_us * context.local_size, longest_sleep_us)) {}

  // Receives a text, which may be empty, from `source` with `tag`; send_text() sends it.
  std::string receive(int source, int tag) const {
    MPI_Status status;
    until([&](int* there) { VOLLEY_MPI(MPI_Iprobe(source, tag, world_, there, &status)); });
    int length = 0;
    VOLLEY_MPI(MPI_Get_count(&status, MPI_CHAR, &length));
    std::string text(static_cast<std::size_t>(length), '\0');
    VOLLEY_MPI(MPI_Recv(text.data(), length, MPI_CHAR, source, tag, world_, MPI_STATUS_IGNORE));
    return text;
  }

  // Barriers. Collective over the world. Ranks leave the first one up to a sleep apart; all have arrived when the first
  // one leaves it, so that nobody is busy waiting for longer than a sleep in the second, which they leave as close
  // together as MPI's own barrier allows.
  void barrier() const {
    MPI_Request all_here = MPI_REQUEST_NULL;
    VOLLEY_MPI(MPI_Ibarrier(world_, &all_here));
    wait(all_here);
  }
  void start_together() const {
    barrier();
    VOLLEY_MPI(MPI_Barrier(world_));
  }

  void wait(MPI_Request& request) const {
    until([&](int* complete) { VOLLEY_MPI(MPI_Test(&request, complete, MPI_STATUS_IGNORE)); });
  }

 private:
  // A poll takes a few microseconds, because MPI checks every neighbour. The ranks of a node together poll at most once
  // in 200 µs, which is one or two per cent of a core's time.
  static constexpr int poll_interval_us = 200;
  static constexpr int shortest_sleep_us = 20;
  static constexpr int longest_sleep_us = 50'000;  // on a node of more than 250 ranks

  // Sleeps grow with the time waited, so that none delays the rank much longer than it has waited already.
  template <class Poll>
  void until(Poll poll) const {
    const auto done = [&] {
      int found = 0;
      poll(&found);
      return found != 0;
    };
    // The first call may make progress in MPI that only the second call returns.
    for (int sleep_us = shortest_sleep_us; !done() && !done(); sleep_us = std::min(2 * sleep_us, longest_us_)) {
      watchdog_.progress();  // the rank that this one waits for has its own watchdog
      usleep(static_cast<useconds_t>(sleep_us));
    }
  }

  MPI_Comm world_;
  Watchdog& watchdog_;
  int longest_us_;
};

inline void send_text(const std::string& text, int destination, int tag, MPI_Comm comm) {
  VOLLEY_MPI(MPI_Send(text.data(), static_cast<int>(text.size()), MPI_CHAR, destination, tag, comm));
}

}  // namespace volley
