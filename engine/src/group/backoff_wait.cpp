#include "group/backoff_wait.hpp"

#include <unistd.h>

#include <algorithm>

namespace volley {

namespace {

// A look costs a few microseconds (MPI looks at every neighbour). All ranks of a node together look once in 200 µs at
// most, which takes a core one or two per cent of its time.
constexpr int looks_apart_us = 200;
constexpr int shortest_nap_us = 20;
constexpr int longest_nap_us = 50'000;  // on a node of more than 250 ranks

}  // namespace

BackoffWait::BackoffWait(const Context& context, Watchdog& watchdog)
    : world_(context.world.get()),
      watchdog_(watchdog),
      longest_us_(std::min(looks_apart_us * context.local_size, longest_nap_us)) {}

// The sleep time grows with the time waited, so that a sleep never delays the rank much longer than it has waited.
template <class Done>
void BackoffWait::until(Done done) const {
  // The first look may only have made the progress that the second one sees.
  for (int nap_us = shortest_nap_us; !done() && !done(); nap_us = std::min(2 * nap_us, longest_us_)) {
    watchdog_.progress();  // whoever is waited for has a watchdog of its own
    usleep(static_cast<useconds_t>(nap_us));
  }
}

int BackoffWait::await(int source, int tag) const {
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

std::string BackoffWait::receive(int source, int tag) const {
  std::string text(static_cast<std::size_t>(await(source, tag)), '\0');
  VOLLEY_MPI(MPI_Recv(text.data(), static_cast<int>(text.size()), MPI_CHAR, source, tag, world_, MPI_STATUS_IGNORE));
  return text;
}

void BackoffWait::barrier() const {
  MPI_Request all_here = MPI_REQUEST_NULL;
  VOLLEY_MPI(MPI_Ibarrier(world_, &all_here));
  wait(all_here);
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
