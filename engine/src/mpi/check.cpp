#include "mpi/check.hpp"

#include <array>

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

}  // namespace volley
