// `aware`: MPI on device pointers, the tutorial's CUDA-aware version. Whether the MPI can do that is found out by the
// front in a job of its own, since one that cannot ends the process.
#include "transport/host_driven.hpp"
#include "transport/mpi_channel.hpp"

namespace volley {

std::unique_ptr<Transport> make_aware() { return std::make_unique<HostDriven<MpiChannel>>(); }

}  // namespace volley
