#include "benchmark/collective/verifier.hpp"

#include <array>
#include <cmath>
#include <cstring>

namespace volley {

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

// Guards are the same for all messages of a fill, since the message before may stand for the poison of the next.
Contents guard_of(const Contents& contents) { return contents.seed; }

}  // namespace

void CollectiveVerifier::fill(std::byte* message, std::size_t bytes, const Contents& contents) {
  elements_.write(message, contributed(collective_, bytes, contents));
}

void CollectiveVerifier::poison(std::byte* message, std::size_t, const Contents& contents) {
  const std::uint64_t bytes = collective_.received_bytes(bytes_);
  if (bytes == 0) return;
  memory_.fill(message - guard_bytes, guard_bytes, guard_of(contents));
  elements_.write_opposite(message, expected(collective_, bytes_, contents));
  memory_.fill(message + bytes, guard_bytes, guard_of(contents));
}

std::optional<Mismatch> CollectiveVerifier::check(const std::byte* message, std::size_t, const Contents& contents) {
  const std::uint64_t bytes = collective_.received_bytes(bytes_);
  if (bytes == 0) return std::nullopt;
  const Elements right = expected(collective_, bytes_, contents);
  const WrongElements wrong = elements_.compare(message, right);
  if (wrong.bytes == 0) {
    auto before = check_guard(message - guard_bytes, -static_cast<std::int64_t>(guard_bytes), contents);
    return before ? before : check_guard(message + bytes, static_cast<std::int64_t>(bytes), contents);
  }
  const std::uint32_t want = right.at(wrong.first);
  Mismatch mismatch{
      .rank = 0, .offset_bytes = static_cast<std::int64_t>(wrong.first * element_bytes), .wrong_bytes = wrong.bytes};
  unsigned shift = 0;
  while (((want ^ wrong.found) >> shift & 0xFF) == 0) shift += 8;
  mismatch.offset_bytes += shift / 8;
  mismatch.expected = static_cast<std::uint8_t>(want >> shift);
  mismatch.found = static_cast<std::uint8_t>(wrong.found >> shift);
  if (diagnosis_.empty()) {
    const std::uint64_t piece = wrong.first / right.piece;
    const std::uint64_t position = right.position + wrong.first - piece * right.piece;
    diagnosis_ = collective_.reduces()
                     ? about_sum(right.of, position, wrong.found)
                     : about_copy(right.of, right.rank + static_cast<int>(piece), position, right.piece, wrong.found);
  }
  return mismatch;
}

std::optional<Mismatch> CollectiveVerifier::check_guard(const std::byte* guard, std::int64_t offset,
                                                        const Contents& contents) {
  std::array<std::byte, guard_bytes> want{};
  std::array<std::byte, guard_bytes> have{};
  host_pattern::fill(want.data(), guard_bytes, guard_of(contents));
  memory_.copy(have.data(), guard, guard_bytes);
  std::optional<Mismatch> wrong;
  for (std::size_t i = 0; i < guard_bytes; ++i) {
    if (want[i] == have[i]) continue;
    if (!wrong) {
      wrong = Mismatch{0, offset + static_cast<std::int64_t>(i), static_cast<std::uint8_t>(want[i]),
                       static_cast<std::uint8_t>(have[i]), 0};
    }
    ++wrong->wrong_bytes;
  }
  return wrong;
}

}  // namespace volley
