#include "mpi/version.hpp"

#include <mpi.h>
#if defined(OPEN_MPI) && __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

#include <array>
#include <string_view>

#include "mpi/check.hpp"

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
