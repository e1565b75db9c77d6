// A communicator that frees itself. Its calls return errors, so that the engine can name the call and end the records
// before the job ends.
#pragma once

#include <mpi.h>

#include "mpi/check.hpp"
#include "mpi/handle.hpp"

namespace volley {

class Communicator : public mpi::Handle<MPI_Comm, MPI_Comm_free> {
 public:
  Communicator() = default;
  explicit Communicator(MPI_Comm owned) : Handle(owned) {
    VOLLEY_MPI(MPI_Comm_set_errhandler(owned, MPI_ERRORS_RETURN));
  }

  [[nodiscard]] static Communicator duplicate(MPI_Comm from) {
    MPI_Comm copy = MPI_COMM_NULL;
    VOLLEY_MPI(MPI_Comm_dup(from, &copy));
    return Communicator(copy);
  }

  // The ranks of `from` that share memory with this one. Collective over `from`.
  [[nodiscard]] static Communicator node_of(MPI_Comm from) {
    MPI_Comm node = MPI_COMM_NULL;
    VOLLEY_MPI(MPI_Comm_split_type(from, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node));
    return Communicator(node);
  }

  [[nodiscard]] int rank() const {
    int value = 0;
    VOLLEY_MPI(MPI_Comm_rank(get(), &value));
    return value;
  }
  [[nodiscard]] int size() const {
    int value = 0;
    VOLLEY_MPI(MPI_Comm_size(get(), &value));
    return value;
  }
};

}  // namespace volley
