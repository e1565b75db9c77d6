// `host`: MPI on host memory, the tutorial's CPU version.
#include <limits>
#include <utility>

#include "transport/halo_link.hpp"
#include "transport/host_driven.hpp"
#include "transport/makers.hpp"
#include "transport/mpi_channel.hpp"

namespace volley {

LargeDatatype::LargeDatatype(std::size_t bytes) {
  // Whole chunks and a rest, as one structure of two contiguous blocks.
  constexpr std::size_t chunk_bytes = std::size_t{1} << 30;
  MPI_Datatype chunk = MPI_DATATYPE_NULL;
  VOLLEY_MPI(MPI_Type_contiguous(static_cast<int>(chunk_bytes), MPI_BYTE, &chunk));
  const int lengths[] = {static_cast<int>(bytes / chunk_bytes), static_cast<int>(bytes % chunk_bytes)};
  const MPI_Aint starts[] = {0, static_cast<MPI_Aint>(bytes / chunk_bytes * chunk_bytes)};
  const MPI_Datatype types[] = {chunk, MPI_BYTE};
  VOLLEY_MPI(MPI_Type_create_struct(2, lengths, starts, types, &handle_));
  VOLLEY_MPI(MPI_Type_commit(&handle_));
  VOLLEY_MPI(MPI_Type_free(&chunk));
}

LargeDatatype::LargeDatatype(LargeDatatype&& other) noexcept
    : handle_(std::exchange(other.handle_, MPI_DATATYPE_NULL)) {}

LargeDatatype& LargeDatatype::operator=(LargeDatatype&& other) noexcept {
  std::swap(handle_, other.handle_);
  return *this;
}

LargeDatatype::~LargeDatatype() {
  if (handle_ != MPI_DATATYPE_NULL) MPI_Type_free(&handle_);
}

void MpiChannel::prepare(const View& view) {
  if (view.bytes <= static_cast<std::size_t>(std::numeric_limits<int>::max())) {
    count_ = static_cast<int>(view.bytes);
    type_ = MPI_BYTE;
    return;
  }
  large_ = LargeDatatype(view.bytes);
  count_ = 1;
  type_ = large_.get();
}

std::unique_ptr<Transport> make_host() { return std::make_unique<HostDriven<MpiChannel>>(); }
std::unique_ptr<HaloLink> make_host_halo() { return std::make_unique<HaloOver<MpiChannel>>(); }

}  // namespace volley
