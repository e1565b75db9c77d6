// A window of MPI that frees itself: memory of this rank which other ranks read and write.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <exception>
#include <utility>

#include "mpi/check.hpp"

namespace volley {

class RmaWindow {
 public:
  RmaWindow() = default;
  RmaWindow(RmaWindow&& other) noexcept : handle_(std::exchange(other.handle_, MPI_WIN_NULL)) {}
  RmaWindow& operator=(RmaWindow&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  RmaWindow(const RmaWindow&) = delete;
  RmaWindow& operator=(const RmaWindow&) = delete;
  // MPI_Win_free is collective. While an exception unwinds this rank the others do not call it, so this rank does not
  // either.
  ~RmaWindow() {
    if (handle_ != MPI_WIN_NULL && std::uncaught_exceptions() == 0) MPI_Win_free(&handle_);
  }

  // A window over memory that this rank has; offsets in it are bytes. Collective over `comm`.
  [[nodiscard]] static RmaWindow over(std::byte* memory, std::size_t bytes, MPI_Comm comm) {
    RmaWindow made;
    VOLLEY_MPI(MPI_Win_create(memory, static_cast<MPI_Aint>(bytes), 1, MPI_INFO_NULL, comm, &made.handle_));
    VOLLEY_MPI(MPI_Win_set_errhandler(made.handle_, MPI_ERRORS_RETURN));
    return made;
  }

  // A window over `bytes` of host memory that MPI allocates; `memory` points to them. Collective over `comm`.
  [[nodiscard]] static RmaWindow allocate(std::size_t bytes, MPI_Comm comm, void*& memory) {
    RmaWindow made;
    VOLLEY_MPI(MPI_Win_allocate(static_cast<MPI_Aint>(bytes), 1, MPI_INFO_NULL, comm, &memory, &made.handle_));
    VOLLEY_MPI(MPI_Win_set_errhandler(made.handle_, MPI_ERRORS_RETURN));
    return made;
  }

  // Whether a rank sees in its own memory what others wrote there (MPI_WIN_UNIFIED).
  [[nodiscard]] bool unified() const {
    int* model = nullptr;
    int found = 0;
    VOLLEY_MPI(MPI_Win_get_attr(handle_, MPI_WIN_MODEL, static_cast<void*>(&model), &found));
    return found != 0 && *model == MPI_WIN_UNIFIED;
  }

  [[nodiscard]] MPI_Win get() const noexcept { return handle_; }

 private:
  MPI_Win handle_ = MPI_WIN_NULL;
};

}  // namespace volley
