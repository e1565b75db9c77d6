#include "pair_agreement.hpp"

namespace volley {

void PairAgreement::ready() {
  const MPI_Comm control = pair_.control.get();
  if (pair_.leads()) VOLLEY_MPI(MPI_Send(nullptr, 0, MPI_BYTE, pair_.peer, 0, control));
  VOLLEY_MPI(MPI_Recv(nullptr, 0, MPI_BYTE, pair_.peer, 0, control, MPI_STATUS_IGNORE));
  if (!pair_.leads()) VOLLEY_MPI(MPI_Send(nullptr, 0, MPI_BYTE, pair_.peer, 0, control));
}

void PairAgreement::share(void* bytes, std::size_t count, int from) {
  VOLLEY_MPI(MPI_Bcast(bytes, static_cast<int>(count), MPI_BYTE, from, pair_.control.get()));
}

}  // namespace volley
