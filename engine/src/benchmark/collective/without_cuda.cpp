// What the .cu files of this folder answer where there is no CUDA: none of it is ever opened.
#include "benchmark/collective/element_memory.hpp"
#include "benchmark/collective/transport.hpp"

namespace volley {

std::unique_ptr<Transport> make_mpi_collectives();

std::unique_ptr<ElementMemory> make_device_elements() { return nullptr; }
std::unique_ptr<Transport> make_staged_collectives() { return make_mpi_collectives(); }
std::unique_ptr<Transport> make_nccl_collectives() { return make_mpi_collectives(); }
std::unique_ptr<Transport> make_nccl_allocated_collectives() { return make_mpi_collectives(); }

}  // namespace volley
