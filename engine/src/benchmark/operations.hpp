// The operations that a plan names; and the verifier of a collective's result on each rank, which tells which rank's
// contribution is missing.
#pragma once

#include <cmath>
#include <cstring>

#include "record/plan.hpp"
#include "transport/collectives.hpp"
#include "transport/registry.hpp"

namespace volley {

constexpr std::uint64_t exact_below(Element element) {
  return element == Element::float32 ? std::uint64_t{1} << 24 : std::uint64_t{1} << 31;
}

// How many bits vary by position; 0 where not even the numbers of the ranks can be summed.
inline std::uint32_t varying_bits(Element element, std::uint64_t ranks) {
  constexpr std::uint32_t most = 20;
  const std::uint64_t fixed = ranks * (ranks + 1) + ranks * (ranks - 1) / 2;
  std::uint32_t bits = 0;
  while (bits < most && fixed + (ranks << (bits + 1)) <= exact_below(element)) ++bits;
  return bits;
}

inline Contributions contributions(const Collective& collective, const Contents& contents) {
  return {.reduces = collective.reduces(),
          .floats = collective.element == Element::float32,
          .ranks = static_cast<std::uint32_t>(collective.ranks),
          .bits = varying_bits(collective.element, static_cast<std::uint64_t>(collective.ranks)),
          .start = mixed(contents.seed),
          .packed_bits = collective.packed_bits()};
}

inline std::uint64_t first_element(const Contents& contents) {
  return contents.first_word * (sizeof(std::uint64_t) / element_bytes);
}

// The value of an element of a sum; none if it is not a whole number.
inline std::optional<std::int64_t> number_of(std::uint32_t element, bool floats) {
  if (!floats) return static_cast<std::int32_t>(element);
  float value = 0;
  std::memcpy(&value, &element, sizeof value);
  if (!(std::fabs(value) < 1e9F) || std::trunc(value) != value) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

inline std::string of_rank(std::int64_t rank) { return "rank " + std::to_string(rank); }

// What is wrong with a sum, from the difference between the number that it should be and the one that it is.
inline std::string about_sum(const Contributions& of, int sum, std::uint64_t position, std::uint32_t found) {
  if (of.packed_bits > 0) {
    return found == 0 ? "it lacks what " + of_rank(of.contributor(position)) + " contributed" : "";
  }
  const auto number = number_of(found, of.floats);
  if (!number) return "";
  const std::int64_t lacks = std::int64_t{of.number(sum, position)} - *number;
  const auto smallest = std::int64_t{of.number(0, position)};
  const auto ranks = std::int64_t{of.ranks};
  if (lacks >= smallest && lacks < smallest + ranks)
    return "it lacks what " + of_rank(lacks - smallest) + " contributed";
  if (-lacks >= smallest && -lacks < smallest + ranks) {
    return "it counts what " + of_rank(-lacks - smallest) + " contributed twice";
  }
  if (lacks != 0 && std::abs(lacks) < ranks) return "it counts one rank's contribution in place of another's";
  return "";
}

// What is wrong with a copy: whose element it is.
inline std::string about_copy(const Contributions& of, int rank, std::uint64_t position, std::uint64_t block,
                              std::uint32_t found) {
  if (found == ~of.element(rank, position)) return "what " + of_rank(rank) + " sent never arrived";
  for (int other = 0; other < static_cast<int>(of.ranks); ++other) {
    if (other != rank && of.element(other, position) == found) {
      return "in place of what " + of_rank(rank) + " sent is what " + of_rank(other) + " sent";
    }
    const std::uint64_t elsewhere = position % block + static_cast<std::uint64_t>(other) * block;
    if (elsewhere != position && of.element(rank, elsewhere) == found) {
      return "in its place is another part of what " + of_rank(rank) + " sent";
    }
  }
  return "";
}

// The most ranks whose sums are exact with at least this many varying bits.
[[nodiscard]] inline int max_ranks(Element element) {
  if (traits_of(element).bits < 32) return std::numeric_limits<int>::max();
  int most = 1;
  while (varying_bits(element, static_cast<std::uint64_t>(most) + 1) >= Contributions::min_bits) ++most;
  return most;
}

// The `operations` of a plan.
[[nodiscard]] inline std::vector<Operation> read_operations(PlanObject& options) {
  std::vector<std::string> names;
  std::vector<Operation> found;
  options.names("operations", names, "the name of an operation");
  for (std::size_t i = 0; i < names.size(); ++i) {
    int number = 0;
    while (number < operations && names[i] != name_of(static_cast<Operation>(number))) ++number;
    if (number < operations) found.push_back(static_cast<Operation>(number));
    else options.complain(PlanObject::place("operations", i), "there is no operation `" + names[i] + "`");
  }
  return found;
}

// Complains where there are too few ranks, or more than sums are exact for.
inline void check_ranks(PlanObject& options, const Plan& plan, Element element) {
  if (plan.world_size < 2) options.complain_of_plan("world_size", "a collective needs at least 2 ranks, found 1");
  if (plan.world_size > max_ranks(element)) {
    options.complain_of_plan("world_size", std::string("sums of `") + name_of(element) + "` are exact for up to " +
                                               std::to_string(max_ranks(element)) + " ranks, found " +
                                               std::to_string(plan.world_size));
  }
}

// An operation as this rank of the group takes part in it.
[[nodiscard]] inline Collective collective_of(Operation operation, Element element, const RankGroup& group) {
  Collective made{operation, element, group.size(), group.self};
  made.comm = made.among_neighbors() ? group.ring.get() : group.data.get();
  return made;
}

// Why an operation of this length is not made; empty if it is. `bytes` are whole elements for each rank.
[[nodiscard]] inline std::string refused_operation(const Plan& plan, const Collective& collective, std::uint64_t bytes,
                                                   const TransportEntry& entry) {
  const auto excluded = plan.excluded.find(entry.name + " " + name_of(collective.operation));
  if (excluded != plan.excluded.end()) return excluded->second;
  if (collective.among_neighbors() && collective.ranks < 3) return "a ring needs at least 3 ranks";
  if (collective.in_place && !collective.has_place()) return "volley does not measure this operation in place";
  if (collective.reduces() && traits_of(collective.element).bits < 32 && entry.mpi != ThroughMpi::no) {
    return std::string("the MPI standard has no type for ") + name_of(collective.element) + "; NCCL has one";
  }
  const bool in_bytes = collective.has_types();
  const bool exchanged = collective.in_place && collective.operation == Operation::all_to_all;
  const bool of_mpi_alone =
      collective.operation == Operation::scan || in_bytes || collective.among_neighbors() || exchanged;
  if (of_mpi_alone && entry.mpi == ThroughMpi::no) {
    return std::string("NCCL has no ") + name_of(collective.operation) + (exchanged ? " in place" : "");
  }
  if (bytes == 0) {
    return "the smallest size with " + std::to_string(collective.ranks) + " ranks is " +
           std::to_string(element_bytes * collective.units()) + " bytes";
  }
  const bool too_many = (in_bytes ? bytes : collective.counted(bytes)) > std::numeric_limits<int>::max();
  return too_many && entry.mpi != ThroughMpi::no ? "MPI's collectives count elements with an int" : "";
}

// What this rank contributes: `bytes` of its send buffer, and what must arrive. Barriers have neither.
[[nodiscard]] inline Elements contributed(const Collective& collective, std::uint64_t bytes, const Contents& contents) {
  const std::uint64_t count = bytes / element_bytes;
  return {.of = contributions(collective, contents),
          .piece = count,
          .position = first_element(contents),
          .rank = collective.self,
          .count = count};
}

[[nodiscard]] inline Elements expected(const Collective& collective, std::uint64_t bytes, const Contents& contents) {
  const std::uint64_t count = collective.received_bytes(bytes) / element_bytes;
  Elements all{.of = contributions(collective, contents),
               .piece = count,
               .position = first_element(contents),
               .rank = collective.reduces() ? Contributions::sum : collective.root,
               .count = count};
  if (collective.operation == Operation::scan) all.rank = Contributions::sum_of_first(collective.self + 1);
  const DataShare part = collective.traits().received_by_root;
  if (collective.among_neighbors()) {  // a piece of the rank before and one of the rank after
    const bool mine = part == DataShare::block_for_neighbors;
    all.piece = collective.block(bytes, mine ? collective.self : collective.in_ring(-1)) / element_bytes;
    all.odd_piece = collective.block(bytes, mine ? collective.self : collective.in_ring(1)) / element_bytes;
    all.rank = collective.in_ring(-1);
    all.rank_step = collective.in_ring(1) - all.rank;
    // The rank before sends this rank its second block, the rank after its first one.
    if (!mine) return all;
    const std::uint64_t second = collective.block(bytes, collective.in_ring(-2)) / element_bytes;
    all.position += second;
    all.position_step = 0 - second;
    return all;
  }
  const bool pieces = collective.in_blocks() && part != DataShare::block;
  if (pieces) {  // from each rank: its block, or this rank's block of what it sends
    const bool mine = part == DataShare::block_for_each;
    all.piece = collective.block(bytes, mine ? collective.self : 0) / element_bytes;
    all.odd_piece = collective.block(bytes, mine ? collective.self : 1) / element_bytes;
    all.rank = 0;  // of the first piece
  }
  if (part >= DataShare::block) all.position += collective.block_start(bytes, collective.self) / element_bytes;
  return all;
}

class CollectiveVerifier final : public Verifier {
 public:
  // `bytes` of the larger buffer, a whole number of elements for each rank; the buffers lie in `memory`.
  CollectiveVerifier(const Collective& collective, std::uint64_t bytes, Memory& memory)
      : collective_(collective), bytes_(bytes), memory_(memory) {}

  [[nodiscard]] int kind() const override { return collective_.reduces() ? 2 : 1; }

  void fill(std::byte* message, std::size_t bytes, const Contents& contents) override {
    memory_.write(message, bytes, contributed(collective_, bytes, contents));
  }

  // Guards are the same for all messages of a fill, since the message before may stand for the poison of the next.
  void poison(std::byte* message, std::size_t, const Contents& contents) override {
    const std::uint64_t bytes = collective_.received_bytes(bytes_);
    if (bytes > 0) memory_.poison(message, bytes, expected(collective_, bytes_, contents), contents.seed);
    if (collective_.sends_in_place()) {
      fill(message + collective_.place(bytes_), collective_.sent_bytes(bytes_), contents);
    }
  }
  [[nodiscard]] bool takes_what_is_there() const override { return collective_.in_place; }

  [[nodiscard]] std::optional<Mismatch> check(const std::byte* message, std::size_t,
                                              const Contents& contents) override {
    const std::uint64_t bytes = collective_.received_bytes(bytes_);
    if (bytes == 0) return std::nullopt;
    const Elements right = expected(collective_, bytes_, contents);
    const auto mismatch = memory_.check(message, bytes, right, contents.seed);
    const std::int64_t offset = mismatch ? mismatch->offset_bytes : -1;
    if (offset < 0 || offset >= static_cast<std::int64_t>(bytes) || !diagnosis_.empty()) return mismatch;
    const std::uint64_t first = static_cast<std::uint64_t>(offset) / element_bytes;
    std::array<std::byte, element_bytes> there{};
    memory_.copy(there.data(), message + first * element_bytes, element_bytes);
    const auto found = std::bit_cast<std::uint32_t>(there);
    const Elements::ElementPlace place = right.place(first);
    const std::uint64_t position = right.position_of(place);
    diagnosis_ = collective_.reduces() ? about_sum(right.of, right.rank, position, found)
                                       : about_copy(right.of, right.rank_of(place), position, right.piece, found);
    return mismatch;
  }

  // What the first mismatch on this rank means, for people; empty where there was none.
  [[nodiscard]] const std::string& diagnosis() const { return diagnosis_; }

 private:
  const Collective collective_;
  const std::uint64_t bytes_;
  Memory& memory_;
  std::string diagnosis_;
};

}  // namespace volley
