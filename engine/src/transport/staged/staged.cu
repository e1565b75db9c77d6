// `staged/pageable` and `staged/pinned`: GPU -> host -> MPI -> host -> GPU, whole messages.
//
// Pageable is the tutorial's CUDA-staged version to the call: a blocking cudaMemcpy of the whole message to a host
// buffer from malloc, MPI_Send; MPI_Recv, a blocking cudaMemcpy to the device. Pinned is the same with page-locked
// memory, which the copy engine reaches by itself, and asynchronous copies that the host waits for.
#include "gpu/pinned_buffer.cuh"
#include "host/pageable_buffer.hpp"
#include "transport/makers.hpp"
#include "transport/staged/copies.cuh"
#include "transport/staged/halo.cuh"
#include "transport/staged/whole.cuh"

namespace volley {

std::unique_ptr<Transport> make_staged_pageable() { return std::make_unique<Whole<PageableBuffer, BlockingCopies>>(); }
std::unique_ptr<Transport> make_staged_pinned() { return std::make_unique<Whole<gpu::PinnedBuffer, AsyncCopies>>(); }
std::unique_ptr<HaloLink> make_staged_halo() { return std::make_unique<StagedHalo>(); }

}  // namespace volley
