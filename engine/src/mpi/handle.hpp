// A handle of MPI that can be moved and frees itself: of a communicator, a window or a datatype.
#pragma once

#include <exception>
#include <optional>
#include <utility>

namespace volley::mpi {

template <class Type, int (*free)(Type*)>
class Handle {
 public:
  Handle() = default;
  explicit Handle(Type owned) : owned_(owned) {}
  Handle(Handle&& other) noexcept : owned_(std::exchange(other.owned_, std::nullopt)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(owned_, other.owned_);
    return *this;
  }
  // MPI_Comm_free and MPI_Win_free are collective. While an exception unwinds this rank the others do not call them, so
  // this rank does not either.
  ~Handle() {
    if (owned_ && std::uncaught_exceptions() == 0) free(&*owned_);
  }

  [[nodiscard]] explicit operator bool() const noexcept { return owned_.has_value(); }
  // Only if there is one.
  [[nodiscard]] Type get() const noexcept { return *owned_; }

 private:
  std::optional<Type> owned_;
};

}  // namespace volley::mpi
