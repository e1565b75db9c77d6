// `host`: MPI on host memory, the tutorial's CPU version.
#include "transport/host_driven.hpp"
#include "transport/mpi_channel.hpp"

namespace volley {

std::unique_ptr<Transport> make_host() { return std::make_unique<HostDriven<MpiChannel>>(); }

}  // namespace volley
