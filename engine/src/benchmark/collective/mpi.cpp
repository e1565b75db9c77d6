// `host` and `aware`: MPI's collectives, on host memory and on device memory.
#include "benchmark/collective/mpi_collectives.hpp"

namespace volley {

std::unique_ptr<Transport> make_mpi_collectives() { return std::make_unique<MpiCollectives>(); }

}  // namespace volley
