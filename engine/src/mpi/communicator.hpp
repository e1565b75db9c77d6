// A communicator that frees itself. Its calls return errors, so that the engine can name the call and end the records
// before the job ends.
#pragma once

#include <mpi.h>

#include <exception>
#include <utility>

#include "mpi/check.hpp"

namespace volley {

class Communicator {
 public:
  Communicator() = default;
  explicit Communicator(MPI_Comm owned) : handle_(owned) {
    VOLLEY_MPI(MPI_Comm_set_errhandler(handle_, MPI_ERRORS_RETURN));
  }
  Communicator(Communicator&& other) noexcept : handle_(std::exchange(other.handle_, MPI_COMM_NULL)) {}
  Communicator& operator=(Communicator&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  // MPI_Comm_free is collective. While an exception unwinds this rank the others do not call it, so this rank does not
  // either.
  ~Communicator() {
    if (handle_ != MPI_COMM_NULL && std::uncaught_exceptions() == 0) MPI_Comm_free(&handle_);
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

  [[nodiscard]] MPI_Comm get() const noexcept { return handle_; }
  [[nodiscard]] int rank() const {
    int value = 0;
    VOLLEY_MPI(MPI_Comm_rank(handle_, &value));
    return value;
  }
  [[nodiscard]] int size() const {
    int value = 0;
    VOLLEY_MPI(MPI_Comm_size(handle_, &value));
    return value;
  }

 private:
  MPI_Comm handle_ = MPI_COMM_NULL;
};

}  // namespace volley
