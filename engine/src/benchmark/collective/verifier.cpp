#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "benchmark/collective/verifier.hpp"

namespace volley {

namespace {

constexpr std::uint64_t exact_below(Element element) {
  return element == Element::float32 ? std::uint64_t{1} << 24 : std::uint64_t{1} << 31;
}

// How many bits vary by position; 0 where not even the numbers of the ranks can be summed.
std::uint32_t varying_bits(Element element, std::uint64_t ranks) {
  constexpr std::uint32_t most = 20;
  const std::uint64_t fixed = ranks * (ranks + 1) + ranks * (ranks - 1) / 2;
  std::uint32_t bits = 0;
  while (bits < most && fixed + (ranks << (bits + 1)) <= exact_below(element)) ++bits;
  return bits;
}

Contributions contributions(const Collective& collective, const Contents& contents) {
  return {.reduces = collective.reduces(),
          .floats = collective.element == Element::float32,
          .ranks = static_cast<std::uint32_t>(collective.ranks),
          .bits = varying_bits(collective.element, static_cast<std::uint64_t>(collective.ranks)),
          .start = mixed(contents.seed)};
}

std::uint64_t first_element(const Contents& contents) {
  return contents.first_word * (sizeof(std::uint64_t) / element_bytes);
}

}  // namespace

const char* name_of(Operation operation) {
  switch (operation) {
    case Operation::barrier: return "barrier";
    case Operation::broadcast: return "broadcast";
    case Operation::allreduce: return "allreduce";
    case Operation::reduce_scatter: return "reduce-scatter";
    case Operation::allgather: return "allgather";
    case Operation::all_to_all: return "all-to-all";
  }
  return "";
}

const char* name_of(Element element) { return element == Element::float32 ? "float" : "int"; }

int max_ranks(Element element) {
  int most = 1;
  while (varying_bits(element, static_cast<std::uint64_t>(most) + 1) >= Contributions::min_bits) ++most;
  return most;
}

Elements contributed(const Collective& collective, std::uint64_t bytes, const Contents& contents) {
  const std::uint64_t count = bytes / element_bytes;
  return {.of = contributions(collective, contents),
          .piece = count,
          .position = first_element(contents),
          .rank = collective.self,
          .count = count};
}

Elements expected(const Collective& collective, std::uint64_t bytes, const Contents& contents) {
  const std::uint64_t count = collective.received_bytes(bytes) / element_bytes;
  const std::uint64_t block = collective.block(bytes) / element_bytes;
  const std::uint64_t mine = static_cast<std::uint64_t>(collective.self) * block;
  Elements all{.of = contributions(collective, contents),
               .piece = count,
               .position = first_element(contents),
               .rank = collective.reduces() ? Contributions::sum : Collective::root,
               .count = count};
  if (collective.operation == Operation::reduce_scatter || collective.operation == Operation::all_to_all) {
    all.position += mine;
  }
  if (collective.operation == Operation::allgather || collective.operation == Operation::all_to_all) all.piece = block;
  return all;
}

namespace {

// The value of an element of a sum; none if it is not a whole number.
std::optional<std::int64_t> number_of(std::uint32_t element, bool floats) {
  if (!floats) return static_cast<std::int32_t>(element);
  float value = 0;
  std::memcpy(&value, &element, sizeof value);
  if (!(std::fabs(value) < 1e9F) || std::trunc(value) != value) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

std::string of_rank(std::int64_t rank) { return "rank " + std::to_string(rank); }

// What is wrong with a sum, from the difference between the number that it should be and the one that it is.
std::string about_sum(const Contributions& of, std::uint64_t position, std::uint32_t found) {
  const auto number = number_of(found, of.floats);
  if (!number) return "";
  const std::int64_t lacks = std::int64_t{of.number(Contributions::sum, position)} - *number;
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
std::string about_copy(const Contributions& of, int rank, std::uint64_t position, std::uint64_t block,
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

}  // namespace

void CollectiveVerifier::fill(std::byte* message, std::size_t bytes, const Contents& contents) {
  memory_.write(message, bytes, contributed(collective_, bytes, contents));
}

// Guards are the same for all messages of a fill, since the message before may stand for the poison of the next.
void CollectiveVerifier::poison(std::byte* message, std::size_t, const Contents& contents) {
  const std::uint64_t bytes = collective_.received_bytes(bytes_);
  if (bytes > 0) memory_.poison(message, bytes, expected(collective_, bytes_, contents), contents.seed);
}

std::optional<Mismatch> CollectiveVerifier::check(const std::byte* message, std::size_t, const Contents& contents) {
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
  const std::uint64_t piece = first / right.piece;
  const std::uint64_t position = right.position + first - piece * right.piece;
  diagnosis_ = collective_.reduces()
                   ? about_sum(right.of, position, found)
                   : about_copy(right.of, right.rank + static_cast<int>(piece), position, right.piece, found);
  return mismatch;
}

}  // namespace volley
