#include "mpi/mpi.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <numeric>
#include <string_view>
#include <type_traits>

namespace volley {

namespace {

enum class Interface { open_mpi, mpich, standard };
constexpr const char* names[] = {"libmpi.so.40", "libmpi.so.12", "libmpi_abi.so.1"};

Interface interface = Interface::open_mpi;

// As a program that is linked to the library would: what LD_PRELOAD names comes first, such as a profiler.
template <class Type>
Type* find(const char* name) {
  return reinterpret_cast<Type*>(dlsym(RTLD_DEFAULT, name));
}

// MPICH 5 and Intel MPI have libraries of two interfaces, and both know this function: MPICH's own answers -1.
bool has_the_standard_interface() {
  int major = -1;
  int minor = -1;
  const auto ask = find<int(int*, int*)>("MPI_Abi_get_version");
  return ask != nullptr && ask(&major, &minor) == MPI_SUCCESS && major > 0;
}

template <class Type, class Value>
void set(Type& constant, Value value) {
  if constexpr (std::is_same_v<Value, const char*>) constant = find<std::remove_pointer_t<Type>>(value);
  else if constexpr (std::is_pointer_v<Type>) constant = reinterpret_cast<Type>(static_cast<std::intptr_t>(value));
  else constant = value;
}

}  // namespace

void load_mpi(const std::string& path) {
  const std::string which = "the MPI library " + path;
  if (dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    const std::string said = dlerror();
    const bool narrow = said.find("ELFCLASS32") != std::string::npos;
    throw UnsupportedError(which + (narrow ? " is a library for 32-bit programs" : " does not load: " + said) +
                           "; choose another MPI with --mpi, or load the environment module of this one");
  }
#define VOLLEY_FIND(name, ...)          \
  name = find<int(__VA_ARGS__)>(#name); \
  if (name == nullptr) throw UnsupportedError(which + " has no " #name "; volley needs MPI 3.0 or newer");
  VOLLEY_MPI_FUNCTIONS(VOLLEY_FIND)
#undef VOLLEY_FIND
#define VOLLEY_FIND(name, ...)          \
  name = find<int(__VA_ARGS__)>(#name); \
  if (name == nullptr) name = [](auto...) -> int { throw UnsupportedError("this MPI library has no " #name); };
  VOLLEY_MPI_ONE_SIDED_FUNCTIONS(VOLLEY_FIND)
#undef VOLLEY_FIND
#define VOLLEY_FIND(name, ...) name = find<int(__VA_ARGS__)>(#name);
  VOLLEY_MPI_PERSISTENT_FUNCTIONS(VOLLEY_FIND)
  VOLLEY_MPI_PARTITIONED_FUNCTIONS(VOLLEY_FIND)
#undef VOLLEY_FIND
  if (find<void>("ompi_mpi_comm_world") != nullptr) interface = Interface::open_mpi;
  else interface = has_the_standard_interface() ? Interface::standard : Interface::mpich;
  if (interface == Interface::mpich) mpi_handle_bytes = sizeof(int);
#define VOLLEY_SET(type, name, in_open_mpi, in_mpich, in_standard) \
  switch (interface) {                                             \
    case Interface::open_mpi: set(name, in_open_mpi); break;       \
    case Interface::mpich: set(name, in_mpich); break;             \
    case Interface::standard: set(name, in_standard); break;       \
  }
  VOLLEY_MPI_CONSTANTS(VOLLEY_SET)
#undef VOLLEY_SET
}

std::string mpi_library() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  VOLLEY_MPI(MPI_Get_library_version(text.data(), &length));
  const std::string_view said(text.data());
  return std::string(said.substr(0, said.find('\n')));
}

Json mpi_facts() {
  int major = 0;
  int minor = 0;
  VOLLEY_MPI(MPI_Get_version(&major, &minor));
  Json facts = {{"library", mpi_library()},
                {"standard", std::to_string(major) + "." + std::to_string(minor)},
                {"interface", names[static_cast<std::size_t>(interface)]},
                {"cuda_query", nullptr},
                {"thread_multiple", nullptr}};
  if (mpi_is_running()) facts["thread_multiple"] = mpi_lets_threads_call();
  const auto cuda_query = find<int()>("MPIX_Query_cuda_support");
  if (cuda_query != nullptr && mpi_is_running())
    facts["cuda_query"] = cuda_query() == 1;  // MPICH ends the process else
  return facts;
}

bool mpi_lets_threads_call() {
  int level = 0;
  VOLLEY_MPI(MPI_Query_thread(&level));
  return level >= MPI_THREAD_MULTIPLE;
}

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

// The texts of all ranks, in rank order: on every rank, or on the first one only.
static std::vector<std::string> gathered(const std::string& text, bool everywhere, MPI_Comm comm) {
  int rank = 0;
  int ranks = 0;
  VOLLEY_MPI(MPI_Comm_rank(comm, &rank));
  VOLLEY_MPI(MPI_Comm_size(comm, &ranks));
  const auto count = static_cast<std::size_t>(everywhere || rank == 0 ? ranks : 0);
  const auto length = static_cast<int>(text.size());
  std::vector<int> lengths(static_cast<std::size_t>(ranks));
  VOLLEY_MPI(MPI_Allgather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, comm));
  std::vector<int> starts(count + 1);
  std::partial_sum(lengths.begin(), lengths.begin() + count, starts.begin() + 1);
  std::string all(static_cast<std::size_t>(starts.back()), '\0');
  if (everywhere) {
    VOLLEY_MPI(
        MPI_Allgatherv(text.data(), length, MPI_CHAR, all.data(), lengths.data(), starts.data(), MPI_CHAR, comm));
  } else {
    VOLLEY_MPI(
        MPI_Gatherv(text.data(), length, MPI_CHAR, all.data(), lengths.data(), starts.data(), MPI_CHAR, 0, comm));
  }
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < count; ++i) {
    texts.push_back(all.substr(static_cast<std::size_t>(starts[i]), static_cast<std::size_t>(lengths[i])));
  }
  return texts;
}

std::vector<std::string> gather(const std::string& text, MPI_Comm comm) { return gathered(text, false, comm); }
std::vector<std::string> all_gather(const std::string& text, MPI_Comm comm) { return gathered(text, true, comm); }

}  // namespace volley::mpi
