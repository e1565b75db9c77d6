// Collective operations as a transport carries them, and those of MPI.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "transport/transport.hpp"

namespace volley {

#define VOLLEY_OPERATION(X, operation, ...) operation,
enum class Operation { VOLLEY_MPI_COLLECTIVES(VOLLEY_OPERATION, ) };
#undef VOLLEY_OPERATION

// How much of an operation's data is in a buffer: nothing, all of it, the block of this rank, a block like this rank's
// for each rank, the blocks of its two neighbors, or a block like this rank's for each of these.
enum class DataShare { none, whole, block, block_for_each, neighbors, block_for_neighbors };

struct OperationTraits {
  const char* name;
  bool reduces;
  DataShare sent_by_root, sent_by_others;
  DataShare received_by_root, received_by_others;
  bool own_counts = false;  // MPI is told the number of elements of each rank
};

inline constexpr auto operation_traits = [] {
  using enum DataShare;
  return std::to_array<OperationTraits>({
      {"barrier", false, none, none, none, none},
      {"broadcast", false, whole, none, none, whole},
      {"reduce", true, whole, whole, whole, none},
      {"allreduce", true, whole, whole, whole, whole},
      {"reduce-scatter", true, whole, whole, block, block},
      {"allgather", false, block, block, whole, whole},
      {"all-to-all", false, whole, whole, block_for_each, block_for_each},
      {"gather", false, block, block, whole, none},
      {"scatter", false, whole, none, block, block},
      {"scan", true, whole, whole, whole, whole},
      {"allgatherv", false, block, block, whole, whole, true},
      {"all-to-allv", false, whole, whole, block_for_each, block_for_each, true},
      {"all-to-allw", false, whole, whole, block_for_each, block_for_each, true},
      {"gatherv", false, block, block, whole, none, true},
      {"scatterv", false, whole, none, block, block, true},
      {"neighbor-allgather", false, block, block, neighbors, neighbors},
      {"neighbor-all-to-all", false, neighbors, neighbors, block_for_neighbors, block_for_neighbors},
      {"neighbor-allgatherv", false, block, block, neighbors, neighbors, true},
      {"neighbor-all-to-allv", false, neighbors, neighbors, block_for_neighbors, block_for_neighbors, true},
      {"neighbor-all-to-allw", false, neighbors, neighbors, block_for_neighbors, block_for_neighbors, true},
  });
}();
inline constexpr int operations = static_cast<int>(operation_traits.size());

[[nodiscard]] constexpr const OperationTraits& traits_of(Operation operation) {
  return operation_traits[static_cast<std::size_t>(operation)];
}

[[nodiscard]] inline const char* name_of(Operation operation) { return traits_of(operation).name; }

// What is reduced. Buffers are counted in words of 4 bytes, of which two or four of the short types make one.
enum class Element { float32, int32, float16, bfloat16, float8_e4m3 };
struct ElementTraits {
  const char* name;
  unsigned bits;
};
inline constexpr std::array<ElementTraits, 5> element_traits{
    {{"float", 32}, {"int", 32}, {"half", 16}, {"bfloat16", 16}, {"fp8e4m3", 8}}};
[[nodiscard]] inline const ElementTraits& traits_of(Element element) {
  return element_traits[static_cast<std::size_t>(element)];
}
[[nodiscard]] inline const char* name_of(Element element) { return traits_of(element).name; }

enum class Reduction { sum, max };
inline constexpr std::array reduction_names{"sum", "max"};
[[nodiscard]] inline const char* name_of(Reduction reduction) {
  return reduction_names[static_cast<std::size_t>(reduction)];
}

// An operation as one rank takes part in it. `bytes` below is the size of the larger of a rank's two buffers, as
// nccl-tests counts it: what it sends of a broadcast, a reduce, an allreduce, a reduce-scatter, a scan and a scatter,
// what it receives of an allgather and a gather, either of an all-to-all; of a neighborhood the larger of its two
// blocks twice. The ranks of a neighborhood are a ring: the neighbors of a rank are the one before it and the one
// after.
struct Collective {
  Operation operation = Operation::barrier;
  Element element = Element::float32;
  int ranks = 1;
  int self = 0;
  // The blocks of even and of odd ranks are as long as these numbers say; operations without own counts have 1 and 1.
  std::array<std::uint64_t, 2> imbalance{1, 1};
  Reduction reduction = Reduction::sum;
  int root = 0;
  bool in_place = false;  // a rank that receives has what it contributes in its receive buffer
  MPI_Comm comm{};        // of these ranks, where MPI makes it

  [[nodiscard]] const OperationTraits& traits() const { return traits_of(operation); }
  [[nodiscard]] bool reduces() const { return traits().reduces; }
  // Of what one rank contributes alone; 0: all do.
  [[nodiscard]] std::uint32_t packed_bits() const {
    const std::uint32_t bits = traits_of(element).bits;
    return bits < 32 || reduction == Reduction::max ? bits : 0;
  }
  // Whether MPI is told a type for each rank, and starts in bytes.
  [[nodiscard]] bool has_types() const {
    return operation == Operation::all_to_allw || operation == Operation::neighbor_all_to_allw;
  }
  [[nodiscard]] bool among_neighbors() const { return traits().received_by_root >= DataShare::neighbors; }
  // The rank so many places after this one in the ring.
  [[nodiscard]] int in_ring(int places) const { return (self + places + ranks) % ranks; }
  // Whether each rank has a block of the larger buffer.
  [[nodiscard]] bool in_blocks() const {
    return traits().received_by_root >= DataShare::block || traits().sent_by_others == DataShare::block ||
           traits().received_by_others == DataShare::block;
  }
  // Whether the operation can be in place: what a rank contributes has a place of its own in what is received.
  [[nodiscard]] bool has_place() const {
    const bool whole = traits().received_by_root == DataShare::whole && traits().sent_by_others != DataShare::none;
    return whole || operation == Operation::all_to_all;
  }
  // Whether this rank contributes what is in its receive buffer, and from where.
  [[nodiscard]] bool sends_in_place() const {
    return in_place && (self == root ? traits().received_by_root : traits().received_by_others) != DataShare::none;
  }
  [[nodiscard]] std::uint64_t place(std::uint64_t bytes) const {
    return traits().sent_by_others == DataShare::block ? block_start(bytes, self) : 0;
  }
  // The length of a rank's block, and of all blocks before it, as a number of the smallest unit.
  [[nodiscard]] std::uint64_t units_of(int rank) const { return imbalance[static_cast<std::size_t>(rank) % 2]; }
  [[nodiscard]] std::uint64_t units_before(int rank) const {
    const auto pairs = static_cast<std::uint64_t>(rank) / 2;
    return pairs * (imbalance[0] + imbalance[1]) + static_cast<std::uint64_t>(rank) % 2 * imbalance[0];
  }
  // The units of the larger buffer. Of an all-to-all each rank receives as many blocks as there are ranks.
  [[nodiscard]] std::uint64_t units() const {
    if (!in_blocks()) return 1;
    if (among_neighbors()) return 2 * std::max(imbalance[0], imbalance[1]);
    const std::uint64_t all = units_before(ranks);
    if (traits().received_by_root != DataShare::block_for_each) return all;
    return std::max(all, static_cast<std::uint64_t>(ranks) * std::max(imbalance[0], imbalance[1]));
  }
  // `bytes` rounded down to whole elements of each unit.
  [[nodiscard]] std::uint64_t whole(std::uint64_t bytes) const {
    const std::uint64_t least = element_bytes * units();
    return bytes / least * least;
  }
  [[nodiscard]] std::uint64_t block(std::uint64_t bytes, int rank) const { return bytes / units() * units_of(rank); }
  [[nodiscard]] std::uint64_t block(std::uint64_t bytes) const { return block(bytes, self); }
  [[nodiscard]] std::uint64_t block_start(std::uint64_t bytes, int rank) const {
    return bytes / units() * units_before(rank);
  }
  // The largest number of elements that MPI or NCCL is told: of the whole message, or of a block.
  [[nodiscard]] std::uint64_t counted(std::uint64_t bytes) const {
    return (in_blocks() && !traits().own_counts ? block(bytes) : bytes) / element_bytes;
  }
  // Bytes that this rank sends and receives.
  [[nodiscard]] std::uint64_t sent_bytes(std::uint64_t bytes) const {
    return bytes_of(self == root ? traits().sent_by_root : traits().sent_by_others, bytes);
  }
  [[nodiscard]] std::uint64_t received_bytes(std::uint64_t bytes) const {
    return bytes_of(self == root ? traits().received_by_root : traits().received_by_others, bytes);
  }

 private:
  [[nodiscard]] std::uint64_t bytes_of(DataShare part, std::uint64_t bytes) const {
    switch (part) {
      case DataShare::none: return 0;
      case DataShare::whole: return in_blocks() ? block_start(bytes, ranks) : bytes;
      case DataShare::block: return block(bytes);
      case DataShare::block_for_each: return block(bytes) * static_cast<std::uint64_t>(ranks);
      case DataShare::neighbors: return block(bytes, in_ring(-1)) + block(bytes, in_ring(1));
      case DataShare::block_for_neighbors: return 2 * block(bytes);
    }
    return 0;
  }
};

// Carries collectives among the ranks of a group; all of them make every call.
class Collectives {
 public:
  virtual ~Collectives() = default;

  // The most bytes of host memory that this rank takes for operations of this length besides the buffers.
  [[nodiscard]] virtual std::uint64_t collective_memory_bytes(std::uint64_t) const { return 0; }

  // What repeats this collective; this object outlives it.
  [[nodiscard]] virtual std::unique_ptr<Driver> driver(const Collective& collective);

  // An operation that is started and awaited, as a halo is; null where that is one call.
  [[nodiscard]] virtual std::unique_ptr<HaloExchange> exchange(const Collective&) { return nullptr; }

  // Prepares for `perform` of this collective with this view, whose `bytes` are those of the larger buffer.
  virtual void prepare_for(const Collective&, const View&) {}

  // `count` operations back to back. What is timed: returns when this rank's result is usable. Operation i takes
  // view.message(i), the last one view.last().message(i).
  virtual void perform(const Collective&, const View&, std::uint64_t) {}

 protected:
  // Calls operation(view) for each of `count`, as `perform` must.
  template <class Perform>
  static void for_each_operation(const View& view, std::uint64_t count, Perform operation) {
    const View last = view.last();
    for (std::uint64_t i = 1; i <= count; ++i) operation((i < count ? view : last).message(i - 1));
  }
};

class CollectiveDriver final : public Driver {
 public:
  CollectiveDriver(Collectives& collectives, const Collective& collective)
      : collectives_(collectives), collective_(collective) {}
  void prepare(const View& view, const std::optional<Window>&) override { collectives_.prepare_for(collective_, view); }
  void run(const View& view, std::uint64_t count, const std::optional<Window>&) override {
    collectives_.perform(collective_, view, count);
  }

 private:
  Collectives& collectives_;
  const Collective collective_;
};

inline std::unique_ptr<Driver> Collectives::driver(const Collective& collective) {
  return std::make_unique<CollectiveDriver>(*this, collective);
}

// An operation with what MPI wants to know of its buffers. Where each rank has counts of its own, they and the starts
// are counted in elements, by rank; but an all-to-allw has a type for each rank, and starts in bytes, which
// are longer numbers among neighbors.
struct MpiCall {
  Operation operation = Operation::barrier;
  MPI_Comm comm{};
  int root = 0;
  bool is_root = true;
  MPI_Datatype type = MPI_BYTE;
  MPI_Op reduction = MPI_SUM;
  int count = 0;                 // elements of the whole message, or of this rank's block
  std::vector<int> counts = {};  // of the blocks of all ranks, or of the two neighbors
  std::vector<int> starts = {};
  std::vector<int> arriving = {};  // of an all-to-all: of what arrives from each rank
  std::vector<int> arriving_starts = {};
  std::vector<std::uint32_t> types = {};  // as the library's array of handles
  std::vector<MPI_Aint> long_starts = {};
  std::vector<MPI_Aint> long_arriving_starts = {};
  bool in_place = false;
};

[[nodiscard]] inline MpiCall mpi_call(const Collective& collective, std::uint64_t bytes) {
  MpiCall call{.operation = collective.operation,
               .comm = collective.comm,
               .root = collective.root,
               .is_root = collective.self == collective.root,
               .type = collective.element == Element::float32 ? MPI_FLOAT : MPI_INT32_T,
               .reduction = collective.reduction == Reduction::max ? MPI_MAX : MPI_SUM,
               .count = static_cast<int>((collective.in_blocks() ? collective.block(bytes) : bytes) / element_bytes),
               .in_place = collective.sends_in_place()};
  const int others = !collective.traits().own_counts ? 0 : collective.among_neighbors() ? 2 : collective.ranks;
  const int unit = collective.has_types() ? static_cast<int>(element_bytes) : 1;
  const std::size_t words = mpi_handle_bytes / sizeof(std::uint32_t);  // of a handle
  call.types.resize(unit > 1 ? words * static_cast<std::size_t>(others) : 0);
  for (std::size_t at = 0; at < call.types.size(); at += words)
    std::memcpy(&call.types[at], &call.type, mpi_handle_bytes);
  for (int other = 0; other < others; ++other) {
    const int rank = collective.among_neighbors() ? collective.in_ring(2 * other - 1) : other;
    call.starts.push_back(other == 0 ? 0 : call.starts.back() + unit * call.counts.back());
    call.counts.push_back(static_cast<int>(collective.block(bytes, rank) / element_bytes));
    call.arriving.push_back(call.count);
    call.arriving_starts.push_back(unit * other * call.count);
  }
  if (collective.among_neighbors()) {
    call.long_starts.assign(call.starts.begin(), call.starts.end());
    call.long_arriving_starts.assign(call.arriving_starts.begin(), call.arriving_starts.end());
  }
  return call;
}

// The functions of one form of MPI's collectives: blocking, non-blocking (MPI_I...) or persistent (MPI_..._init).
// `More` are the arguments at their ends.
template <class... More>
struct MpiCollectiveForm {
#define VOLLEY_FUNCTION(X, operation, Name, name, ...) int (*&operation)(__VA_ARGS__ __VA_OPT__(, ) MPI_Comm, More...);
  VOLLEY_MPI_COLLECTIVES(VOLLEY_FUNCTION, )
#undef VOLLEY_FUNCTION

  // One call of it. A root's buffer of a broadcast is only read.
  void operator()(const MpiCall& call, const void* sent, void* to, More... more) const {
    const auto& [operation, comm, root, is_root, type, reduction, count, counts, starts, arriving, arriving_starts,
                 types, long_starts, long_arriving_starts, in_place] = call;
    const void* const from = in_place ? MPI_IN_PLACE : sent;
#define VOLLEY_CASE(name, ...) \
  case Operation::name: return VOLLEY_MPI(name(__VA_ARGS__ __VA_OPT__(, ) comm, more...))
    switch (operation) {
      VOLLEY_CASE(barrier);
      VOLLEY_CASE(broadcast, is_root ? const_cast<void*>(from) : to, count, type, root);
      VOLLEY_CASE(reduce, from, to, count, type, reduction, root);
      VOLLEY_CASE(allreduce, from, to, count, type, reduction);
      VOLLEY_CASE(reduce_scatter, from, to, count, type, reduction);
      VOLLEY_CASE(scan, from, to, count, type, reduction);
      VOLLEY_CASE(allgather, from, count, type, to, count, type);
      VOLLEY_CASE(all_to_all, from, count, type, to, count, type);
      VOLLEY_CASE(gather, from, count, type, to, count, type, root);
      VOLLEY_CASE(scatter, from, count, type, to, count, type, root);
      VOLLEY_CASE(allgatherv, from, count, type, to, counts.data(), starts.data(), type);
      VOLLEY_CASE(all_to_allv, from, counts.data(), starts.data(), type, to, arriving.data(), arriving_starts.data(),
                  type);
      VOLLEY_CASE(all_to_allw, from, counts.data(), starts.data(), types.data(), to, arriving.data(),
                  arriving_starts.data(), types.data());
      VOLLEY_CASE(gatherv, from, count, type, to, counts.data(), starts.data(), type, root);
      VOLLEY_CASE(scatterv, from, counts.data(), starts.data(), type, to, count, type, root);
      VOLLEY_CASE(neighbor_allgather, from, count, type, to, count, type);
      VOLLEY_CASE(neighbor_all_to_all, from, count, type, to, count, type);
      VOLLEY_CASE(neighbor_allgatherv, from, count, type, to, counts.data(), starts.data(), type);
      VOLLEY_CASE(neighbor_all_to_allv, from, counts.data(), starts.data(), type, to, arriving.data(),
                  arriving_starts.data(), type);
      VOLLEY_CASE(neighbor_all_to_allw, from, counts.data(), long_starts.data(), types.data(), to, arriving.data(),
                  long_arriving_starts.data(), types.data());
    }
#undef VOLLEY_CASE
  }
};

inline const MpiCollectiveForm<> blocking_collectives{VOLLEY_MPI_COLLECTIVES(VOLLEY_MPI_BLOCKING, VOLLEY_MPI_NAME)};
inline const MpiCollectiveForm<MPI_Request*> nonblocking_collectives{
    VOLLEY_MPI_COLLECTIVES(VOLLEY_MPI_NONBLOCKING, VOLLEY_MPI_NAME)};

class NonblockingCollective final : public HaloExchange {
 public:
  explicit NonblockingCollective(const Collective& collective) : collective_(collective) {}
  void open_halo(const View& view) override { call_ = mpi_call(collective_, view.bytes); }
  void start(const View& view) override { nonblocking_collectives(call_, view.send, view.recv, &request_); }
  void progress() override {
    int done = 0;
    VOLLEY_MPI(MPI_Test(&request_, &done, MPI_STATUS_IGNORE));
  }
  void finish() override { VOLLEY_MPI(MPI_Wait(&request_, MPI_STATUS_IGNORE)); }

 private:
  const Collective collective_;
  MpiCall call_;
  MPI_Request request_{};
};

// MPI's collectives, from and to whatever memory the view points at.
class MpiCollectives : public Collectives {
 public:
  void perform(const Collective& collective, const View& view, std::uint64_t count) override {
    const MpiCall call = mpi_call(collective, view.bytes);
    for_each_operation(view, count, [&](const View& here) { blocking_collectives(call, here.send, here.recv); });
  }
  [[nodiscard]] std::unique_ptr<HaloExchange> exchange(const Collective& collective) override {
    return std::make_unique<NonblockingCollective>(collective);
  }
};

}  // namespace volley
