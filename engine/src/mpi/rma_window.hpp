// A window of MPI that frees itself: memory of this rank which other ranks read and write. Its calls return errors.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <utility>

#include "mpi/check.hpp"
#include "mpi/handle.hpp"

namespace volley {

class RmaWindow : public mpi::Handle<MPI_Win, MPI_Win_free> {
 public:
  RmaWindow() = default;

  // A window over memory that this rank has; offsets in it are bytes. Collective over `comm`.
  [[nodiscard]] static RmaWindow over(std::byte* memory, std::size_t bytes, MPI_Comm comm) {
    MPI_Win made = MPI_WIN_NULL;
    VOLLEY_MPI(MPI_Win_create(memory, static_cast<MPI_Aint>(bytes), 1, MPI_INFO_NULL, comm, &made));
    return RmaWindow(made);
  }

  // A window over `bytes` of host memory that MPI allocates; `memory` points to them. Collective over `comm`.
  [[nodiscard]] static RmaWindow allocate(std::size_t bytes, MPI_Comm comm, void*& memory) {
    MPI_Win made = MPI_WIN_NULL;
    VOLLEY_MPI(MPI_Win_allocate(static_cast<MPI_Aint>(bytes), 1, MPI_INFO_NULL, comm, &memory, &made));
    return RmaWindow(made);
  }

  // From now on this rank may access the memory of all ranks, until unlock_all(). Not collective.
  void lock_all() {
    VOLLEY_MPI(MPI_Win_lock_all(MPI_MODE_NOCHECK, get()));
    locked_ = true;
  }
  // Nothing if the window is not locked.
  void unlock_all() {
    if (std::exchange(locked_, false)) VOLLEY_MPI(MPI_Win_unlock_all(get()));
  }

  // Whether a rank sees in its own memory what others wrote there (MPI_WIN_UNIFIED).
  [[nodiscard]] bool unified() const {
    int* model = nullptr;
    int found = 0;
    VOLLEY_MPI(MPI_Win_get_attr(get(), MPI_WIN_MODEL, static_cast<void*>(&model), &found));
    return found != 0 && *model == MPI_WIN_UNIFIED;
  }

 private:
  explicit RmaWindow(MPI_Win owned) : Handle(owned) { VOLLEY_MPI(MPI_Win_set_errhandler(owned, MPI_ERRORS_RETURN)); }

  bool locked_ = false;
};

}  // namespace volley
