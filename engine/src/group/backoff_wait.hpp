// Waiting that leaves the core to others: MPI's own waiting polls, and on a machine with more ranks than cores the
// ranks that wait would take time from the pair that is measured.
#pragma once

#include <mpi.h>

#include <string>

#include "group/context.hpp"
#include "measure/watchdog.hpp"

namespace volley {

class BackoffWait {
 public:
  BackoffWait(const Context& context, Watchdog& watchdog);

  // A message of `source` under `tag` has come; returns its length in bytes.
  int await(int source, int tag) const;

  // The text that `source` sends under `tag`.
  [[nodiscard]] std::string receive(int source, int tag) const;

  // Every rank of the world has come here. Collective over the world.
  void barrier() const;

  // Returns when the request is complete.
  void wait(MPI_Request& request) const;

 private:
  template <class Done>
  void until(Done done) const;

  MPI_Comm world_;
  Watchdog& watchdog_;
  int longest_us_;
};

// Sends a text that `receive` takes.
void send_text(const std::string& text, int destination, int tag, MPI_Comm comm);

}  // namespace volley
