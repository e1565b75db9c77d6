// `staged/pageable` and `staged/pinned`: GPU -> host -> MPI -> host -> GPU, whole messages.
//
// Pageable makes the calls of the tutorial's CUDA-staged version: a blocking cudaMemcpy of the whole message to a host
// buffer from malloc, MPI_Send; MPI_Recv, a blocking cudaMemcpy to the device. Pinned is the same with page-locked
// memory.
#include "transport/staged/pinned.cuh"

namespace volley {

namespace {

// Ordinary host memory, as malloc gives it.
class PageableBuffer {
 public:
  PageableBuffer() = default;
  // Touches every page, so that the first message does not.
  explicit PageableBuffer(std::size_t bytes) : data_(std::make_unique<std::byte[]>(bytes)) {}
  [[nodiscard]] std::byte* data() const noexcept { return data_.get(); }

 private:
  std::unique_ptr<std::byte[]> data_;
};

}  // namespace

std::unique_ptr<Transport> make_staged_pageable() { return std::make_unique<Whole<PageableBuffer, BlockingCopies>>(); }
std::unique_ptr<Transport> make_staged_pinned() { return std::make_unique<StagedPinned>(); }

}  // namespace volley
