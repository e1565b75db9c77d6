// Small collective operations outside every timed region.
#pragma once

#include <mpi.h>

#include <string>
#include <type_traits>
#include <vector>

#include "mpi/check.hpp"

namespace volley::mpi {

// Returns the root's text on every rank. Collective.
[[nodiscard]] std::string broadcast(std::string text, int root, MPI_Comm comm);

// Returns the texts of all ranks, in rank order, on every rank. Collective.
[[nodiscard]] std::vector<std::string> all_gather(const std::string& text, MPI_Comm comm);

// Returns the root's value on every rank. Collective.
template <class Value>
[[nodiscard]] Value broadcast_value(Value value, int root, MPI_Comm comm) {
  static_assert(std::is_trivially_copyable_v<Value>);
  VOLLEY_MPI(MPI_Bcast(&value, static_cast<int>(sizeof value), MPI_BYTE, root, comm));
  return value;
}

}  // namespace volley::mpi
