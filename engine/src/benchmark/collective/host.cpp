// `host`: MPI's collectives on host memory.
#include "benchmark/collective/mpi_collectives.hpp"

namespace volley {

std::unique_ptr<Transport> make_host_collectives() { return std::make_unique<MpiCollectives>(); }

}  // namespace volley
