// What the engine takes of MPI: errors as exceptions that name the call and its place in the sources, handles that free
// themselves, and small collectives outside every timed region.
#pragma once

#include <cstddef>
#include <exception>
#include <optional>
#include <source_location>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/errors.hpp"
#include "mpi/interface.hpp"

namespace volley {

// Whether MPI calls can be made: between MPI_Init and MPI_Finalize.
[[nodiscard]] bool mpi_is_running();
// Whether several threads may make them at once; while MPI is running.
[[nodiscard]] bool mpi_lets_threads_call();

// Name and version, the first line of MPI_Get_library_version: "Open MPI v5.0.11, package: ...".
[[nodiscard]] std::string mpi_library();

// Throws std::runtime_error naming `call`, MPI's text for `status` and the place.
[[noreturn]] void fail_mpi(int status, const char* call, std::source_location where);

// Inline, so that a call inside a timed region costs one comparison.
inline void check_mpi(int status, const char* call, std::source_location where = std::source_location::current()) {
  if (status != MPI_SUCCESS) [[unlikely]]
    fail_mpi(status, call, where);
}

}  // namespace volley

// The macro exists to name the call in the message; everything else is a function.
#define VOLLEY_MPI(call) ::volley::check_mpi((call), #call)

namespace volley {

// A handle of MPI that can be moved and frees itself: of a communicator, a window or a datatype.
template <class Type, int (*&free)(Type*)>
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

// A communicator that frees itself. Its calls return errors, so that the engine can name the call and end the records
// before the job ends.
class Communicator : public Handle<MPI_Comm, MPI_Comm_free> {
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

// A datatype for messages that an int cannot count. MPI_Send_c would do, but Open MPI 5.0 lacks it.
using LargeDatatype = Handle<MPI_Datatype, MPI_Type_free>;

// One element of this type is `bytes` bytes.
[[nodiscard]] LargeDatatype large_datatype(std::size_t bytes);

// The requests of calls that are in flight together, as the library expects an array of handles.
class RequestList {
 public:
  // A place for one more, until the next.
  [[nodiscard]] MPI_Request* add() {
    ++requests_;
    halves_.resize(static_cast<std::size_t>(requests_) * mpi_handle_bytes / sizeof(std::uint32_t));
    return reinterpret_cast<MPI_Request*>(&halves_.back() + 1 - mpi_handle_bytes / sizeof(std::uint32_t));
  }
  void wait() {
    VOLLEY_MPI(MPI_Waitall(requests_, first(), MPI_STATUSES_IGNORE));
    clear();
  }
  // Lets MPI move what is in flight.
  void test() {
    int done = 0;
    VOLLEY_MPI(MPI_Testall(requests_, first(), &done, MPI_STATUSES_IGNORE));
    if (done != 0) clear();
  }

 private:
  [[nodiscard]] MPI_Request* first() { return reinterpret_cast<MPI_Request*>(halves_.data()); }
  void clear() {
    requests_ = 0;
    halves_.clear();
  }

  int requests_ = 0;
  std::vector<std::uint32_t> halves_;
};

}  // namespace volley

namespace volley::mpi {

// Returns the root's text on every rank. Collective.
[[nodiscard]] std::string broadcast(std::string text, int root, MPI_Comm comm);

// Returns the texts of all ranks, in rank order, on the first rank or on every rank. Collective.
[[nodiscard]] std::vector<std::string> gather(const std::string& text, MPI_Comm comm);
[[nodiscard]] std::vector<std::string> all_gather(const std::string& text, MPI_Comm comm);

// Returns the root's value on every rank. Collective.
template <class Value>
[[nodiscard]] Value broadcast_value(Value value, int root, MPI_Comm comm) {
  static_assert(std::is_trivially_copyable_v<Value>);
  VOLLEY_MPI(MPI_Bcast(&value, static_cast<int>(sizeof value), MPI_BYTE, root, comm));
  return value;
}

}  // namespace volley::mpi
