// `host`: MPI on host memory, the tutorial's CPU version. `aware`: the same calls on device pointers, its CUDA-aware
// version. The front end has tried in a job of its own whether the MPI can: one that cannot ends the process.
#include "transport/host_driven.hpp"

namespace volley {

std::unique_ptr<Transport> make_mpi() { return std::make_unique<MpiTransport>(); }

}  // namespace volley
