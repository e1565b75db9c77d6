#include "mpi/mpi.hpp"

#include <mpi.h>
#if defined(OPEN_MPI) && __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

#include <array>
#include <cstddef>
#include <string_view>

namespace volley {

bool mpi_is_running() {
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
  // Whole chunks and a rest, as one structure of two contiguous blocks.
  constexpr std::size_t chunk_bytes = std::size_t{1} << 30;
  MPI_Datatype chunk = MPI_DATATYPE_NULL;
  VOLLEY_MPI(MPI_Type_contiguous(static_cast<int>(chunk_bytes), MPI_BYTE, &chunk));
  const int lengths[] = {static_cast<int>(bytes / chunk_bytes), static_cast<int>(bytes % chunk_bytes)};
  const MPI_Aint starts[] = {0, static_cast<MPI_Aint>(bytes / chunk_bytes * chunk_bytes)};
  const MPI_Datatype types[] = {chunk, MPI_BYTE};
  MPI_Datatype made = MPI_DATATYPE_NULL;
  VOLLEY_MPI(MPI_Type_create_struct(2, lengths, starts, types, &made));
  VOLLEY_MPI(MPI_Type_commit(&made));
  VOLLEY_MPI(MPI_Type_free(&chunk));
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

namespace volley {

std::string mpi_built() {
#if defined(OMPI_MAJOR_VERSION)
  return "Open MPI " + std::to_string(OMPI_MAJOR_VERSION) + "." + std::to_string(OMPI_MINOR_VERSION) + "." +
         std::to_string(OMPI_RELEASE_VERSION);
#elif defined(MVAPICH2_VERSION)
  return std::string("MVAPICH ") + MVAPICH2_VERSION;
#elif defined(I_MPI_VERSION)
  return std::string("Intel MPI ") + I_MPI_VERSION;
#elif defined(MPICH_VERSION)
  return std::string("MPICH ") + MPICH_VERSION;
#else
  return "MPI " + std::to_string(MPI_VERSION) + "." + std::to_string(MPI_SUBVERSION);
#endif
}

Json mpi_facts() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  VOLLEY_MPI(MPI_Get_library_version(text.data(), &length));
  const std::string_view library(text.data());
  int major = 0;
  int minor = 0;
  VOLLEY_MPI(MPI_Get_version(&major, &minor));
  Json facts = {{"library", std::string(library.substr(0, library.find('\n')))},
                {"standard", std::to_string(major) + "." + std::to_string(minor)},
                {"cuda_query", nullptr}};
#if defined(MPIX_CUDA_AWARE_SUPPORT)
  facts["cuda_query"] = MPIX_Query_cuda_support() == 1;
#endif
  return facts;
}

}  // namespace volley
