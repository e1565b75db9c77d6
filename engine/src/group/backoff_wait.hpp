// Waits without keeping a core busy. MPI polls while it waits: if there are more ranks than cores, waiting ranks would
// take time from the pair that measures.
#pragma once

#include <mpi.h>

#include <string>

#include "group/context.hpp"
#include "measure/watchdog.hpp"

namespace volley {

class BackoffWait {
 public:
  BackoffWait(const Context& context, Watchdog& watchdog);

  // Waits for a message from `source` with `tag`; returns its length in bytes.
  int wait_for_message(int source, int tag) const;

  // Receives a message of no bytes from `source` with `tag`.
  void wait_for_empty(int source, int tag) const;

  // Receives a text from `source` with `tag`.
  [[nodiscard]] std::string receive(int source, int tag) const;

  // Barriers. Collective over the world. Ranks leave the first one up to a sleep apart, the second one as close
  // together as MPI's own barrier allows.
  void barrier() const;
  void start_together() const;

  // Waits until the request is complete.
  void wait(MPI_Request& request) const;

 private:
  template <class Done>
  void until(Done done) const;

  MPI_Comm world_;
  Watchdog& watchdog_;
  int longest_us_;
};

// Sends a text to BackoffWait::receive.
void send_text(const std::string& text, int destination, int tag, MPI_Comm comm);

}  // namespace volley
