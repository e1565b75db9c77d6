#include "group/mpi_control.hpp"

namespace volley {

void MpiControl::ready() {
  if (leads()) VOLLEY_MPI(MPI_Send(nullptr, 0, MPI_BYTE, peer(), 0, comm_));
  VOLLEY_MPI(MPI_Recv(nullptr, 0, MPI_BYTE, peer(), 0, comm_, MPI_STATUS_IGNORE));
  if (!leads()) VOLLEY_MPI(MPI_Send(nullptr, 0, MPI_BYTE, peer(), 0, comm_));
}

void MpiControl::share(void* bytes, std::size_t count, int from) {
  VOLLEY_MPI(MPI_Bcast(bytes, static_cast<int>(count), MPI_BYTE, from, comm_));
}

}  // namespace volley
