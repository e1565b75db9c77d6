// Small agreements between ranks, outside every timed region. A process alone has no communicator (MPI_COMM_NULL) and
// agrees with itself, before MPI_Init too.
#pragma once

#include <mpi.h>

#include <string>
#include <type_traits>
#include <vector>

#include "check.hpp"

namespace volley::wire {

// The root's text on every rank. Collective.
[[nodiscard]] std::string broadcast(std::string text, int root, MPI_Comm comm);

// Every rank's text, in rank order, on every rank. Collective.
[[nodiscard]] std::vector<std::string> all_gather(const std::string& text, MPI_Comm comm);

// A trivially copyable value of the root's on every rank. Collective.
template <class Value>
[[nodiscard]] Value broadcast_value(Value value, int root, MPI_Comm comm) {
  static_assert(std::is_trivially_copyable_v<Value>);
  if (comm == MPI_COMM_NULL) return value;
  VOLLEY_MPI(MPI_Bcast(&value, static_cast<int>(sizeof value), MPI_BYTE, root, comm));
  return value;
}

}  // namespace volley::wire
