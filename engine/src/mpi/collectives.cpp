#include "mpi/collectives.hpp"

#include <cstddef>

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
