#include "mpi/large_datatype.hpp"

#include "mpi/check.hpp"

namespace volley {

LargeDatatype large_datatype(std::size_t bytes) {
  // Whole chunks and a rest, as one structure of two contiguous blocks.
  constexpr std::size_t chunk_bytes = std::size_t{1} << 30;
  MPI_Datatype chunk = MPI_DATATYPE_NULL;
  VOLLEY_MPI(MPI_Type_contiguous(static_cast<int>(chunk_bytes), MPI_BYTE, &chunk));
  const int lengths[] = {static_cast<int>(bytes / chunk_bytes), static_cast<int>(bytes % chunk_bytes)};
  const MPI_Aint starts[] = {0, static_cast<MPI_Aint>(bytes / chunk_bytes * chunk_bytes)};
  const MPI_Datatype types[] = {chunk, MPI_BYTE};
  MPI_Datatype made = MPI_DATATYPE_NULL;
  VOLLEY_MPI(MPI_Type_create_struct(2, lengths, starts, types, &made));
  VOLLEY_MPI(MPI_Type_commit(&made));
  VOLLEY_MPI(MPI_Type_free(&chunk));
  return LargeDatatype(made);
}

}  // namespace volley
