#include "group/backoff_wait.hpp"

#include <unistd.h>

#include <algorithm>

namespace volley {

namespace {

// A poll takes a few microseconds, because MPI checks every neighbour. The ranks of a node together poll at most once
// in 200 µs, which is one or two per cent of a core's time.
constexpr int poll_interval_us = 200;
constexpr int shortest_sleep_us = 20;
constexpr int longest_sleep_us = 50'000;  // on a node of more than 250 ranks

}  // namespace

BackoffWait::BackoffWait(const Context& context, Watchdog& watchdog)
    : world_(context.world.get()),
      watchdog_(watchdog),
      longest_us_(std::min(poll_interval_us * context.local_size, longest_sleep_us)) {}

// The sleep time grows with the time waited: a sleep never delays the rank much longer than the rank has waited
// already.
template <class Done>
void BackoffWait::until(Done done) const {
  // The first call may make progress in MPI that only the second call returns.
  for (int sleep_us = shortest_sleep_us; !done() && !done(); sleep_us = std::min(2 * sleep_us, longest_us_)) {
    watchdog_.progress();  // the rank that this one waits for has its own watchdog
    usleep(static_cast<useconds_t>(sleep_us));
  }
}

int BackoffWait::wait_for_message(int source, int tag) const {
  MPI_Status status;
  until([&] {
    int there = 0;
    VOLLEY_MPI(MPI_Iprobe(source, tag, world_, &there, &status));
    return there != 0;
  });
  int length = 0;
  VOLLEY_MPI(MPI_Get_count(&status, MPI_BYTE, &length));
  return length;
}

void BackoffWait::wait_for_empty(int source, int tag) const {
  wait_for_message(source, tag);
  VOLLEY_MPI(MPI_Recv(nullptr, 0, MPI_BYTE, source, tag, world_, MPI_STATUS_IGNORE));
}

std::string BackoffWait::receive(int source, int tag) const {
  std::string text(static_cast<std::size_t>(wait_for_message(source, tag)), '\0');
  VOLLEY_MPI(MPI_Recv(text.data(), static_cast<int>(text.size()), MPI_CHAR, source, tag, world_, MPI_STATUS_IGNORE));
  return text;
}

void BackoffWait::barrier() const {
  MPI_Request all_here = MPI_REQUEST_NULL;
  VOLLEY_MPI(MPI_Ibarrier(world_, &all_here));
  wait(all_here);
}

// All ranks have arrived when the first one leaves the quiet barrier, so that nobody is busy waiting for longer than a
// sleep.
void BackoffWait::start_together() const {
  barrier();
  VOLLEY_MPI(MPI_Barrier(world_));
}

void BackoffWait::wait(MPI_Request& request) const {
  until([&] {
    int complete = 0;
    VOLLEY_MPI(MPI_Test(&request, &complete, MPI_STATUS_IGNORE));
    return complete != 0;
  });
}

void send_text(const std::string& text, int destination, int tag, MPI_Comm comm) {
  VOLLEY_MPI(MPI_Send(text.data(), static_cast<int>(text.size()), MPI_CHAR, destination, tag, comm));
}

}  // namespace volley
