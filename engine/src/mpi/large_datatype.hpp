// A datatype for messages that an int cannot count. MPI_Send_c would do, but Open MPI 5.0 lacks it.
#pragma once

#include <mpi.h>

#include <cstddef>

namespace volley {

class LargeDatatype {
 public:
  LargeDatatype() = default;
  // One element of this type is `bytes` bytes.
  explicit LargeDatatype(std::size_t bytes);
  LargeDatatype(LargeDatatype&& other) noexcept;
  LargeDatatype& operator=(LargeDatatype&& other) noexcept;
  LargeDatatype(const LargeDatatype&) = delete;
  LargeDatatype& operator=(const LargeDatatype&) = delete;
  ~LargeDatatype();
  [[nodiscard]] MPI_Datatype get() const noexcept { return handle_; }

 private:
  MPI_Datatype handle_ = MPI_DATATYPE_NULL;
};

}  // namespace volley
