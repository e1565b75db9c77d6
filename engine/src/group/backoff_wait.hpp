// Waiting that yields the core: MPI polls while it waits, and if there are more ranks than cores, waiting ranks would
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

  // A message of `source` under `tag` has come; returns its length in bytes.
  int await(int source, int tag) const;

  // The text that `source` sends under `tag`.
  [[nodiscard]] std::string receive(int source, int tag) const;

  // A barrier. Collective over the world.
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
