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

  // Receives a text from `source` with `tag`.
  [[nodiscard]] std::string receive(int source, int tag) const;

  // A barrier. Collective over the world.
  void barrier() const;

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
