#include "mpi/mpi.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

namespace volley {

bool mpi_is_running() {
  if (MPI_Initialized == nullptr) return false;  // no library is loaded yet
  int begun = 0;
  int over = 0;
  MPI_Initialized(&begun);
  MPI_Finalized(&over);
  return begun != 0 && over == 0;
}

void fail_mpi(int status, const char* call, std::source_location where) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(status, text.data(), &length);
  throw std::runtime_error(std::string(call) + " failed: " + text.data() + " (" + in_sources(where) + ")");
}

LargeDatatype large_datatype(std::size_t bytes) {
  // Blocks without a gap; an MPI knows this as one piece.
  constexpr std::size_t block_bytes = std::size_t{1} << 30;
  std::vector<int> lengths;
  std::vector<MPI_Aint> starts;
  for (std::size_t start = 0; start < bytes; start += block_bytes) {
    lengths.push_back(static_cast<int>(std::min(block_bytes, bytes - start)));
    starts.push_back(static_cast<MPI_Aint>(start));
  }
  MPI_Datatype made = MPI_DATATYPE_NULL;
  VOLLEY_MPI(
      MPI_Type_create_hindexed(static_cast<int>(lengths.size()), lengths.data(), starts.data(), MPI_BYTE, &made));
  VOLLEY_MPI(MPI_Type_commit(&made));
  return LargeDatatype(made);
}

}  // namespace volley

namespace volley::mpi {

std::string broadcast(std::string text, int root, MPI_Comm comm) {
  auto length = static_cast<int>(text.size());
  VOLLEY_MPI(MPI_Bcast(&length, 1, MPI_INT, root, comm));
  text.resize(static_cast<std::size_t>(length));
  VOLLEY_MPI(MPI_Bcast(text.data(), length, MPI_CHAR, root, comm));
  return text;
}

std::vector<std::string> all_gather(const std::string& text, MPI_Comm comm) {
  int ranks = 0;
  VOLLEY_MPI(MPI_Comm_size(comm, &ranks));
  const auto count = static_cast<std::size_t>(ranks);
  const auto length = static_cast<int>(text.size());
  std::vector<int> lengths(count);
  VOLLEY_MPI(MPI_Allgather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, comm));
  std::vector<int> starts(count);
  int total = 0;
  for (std::size_t i = 0; i < count; ++i) {
    starts[i] = total;
    total += lengths[i];
  }
  std::string all(static_cast<std::size_t>(total), '\0');
  VOLLEY_MPI(MPI_Allgatherv(text.data(), length, MPI_CHAR, all.data(), lengths.data(), starts.data(), MPI_CHAR, comm));
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < count; ++i) {
    texts.push_back(all.substr(static_cast<std::size_t>(starts[i]), static_cast<std::size_t>(lengths[i])));
  }
  return texts;
}

}  // namespace volley::mpi
