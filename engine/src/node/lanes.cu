#include "lanes.cuh"

#include <stdexcept>

#include "../gpu/check_cuda.cuh"
#include "../measure/clock.hpp"

namespace volley::node {

void await(const gpu::Stream& stream, Seconds patience) {
  const auto begun = Clock::now();
  while (stream.busy()) {
    if (seconds_since(begun) < patience.count()) continue;
    throw Stuck("no progress for " + std::to_string(static_cast<int>(patience.count())) +
                " s: a copy or a kernel between the two does not come to its end");
  }
}

void LaneLink::pingpong(const View&, std::uint64_t) { throw std::logic_error("this link makes no round trips"); }

void LaneLink::stream(const View&, std::uint64_t, const Stream&) {
  throw std::logic_error("this link makes round trips only");
}

// The seed is that of the direction there; the lowest bit tells the directions apart (measure/pattern.hpp).
void LaneLink::fill(std::byte*, std::size_t bytes, std::uint64_t seed) {
  for (const auto& lane : lanes_) {
    select(lane.from);
    lane.from.verifier->fill(lane.from.at, bytes, seed ^ lane.number);
  }
}

void LaneLink::poison(std::byte*, std::size_t bytes, std::uint64_t seed) {
  for (const auto& lane : lanes_) {
    select(lane.to);
    lane.to.verifier->poison(lane.to.at, bytes, seed ^ lane.number);
  }
}

std::optional<Mismatch> LaneLink::check(const std::byte*, std::size_t bytes, std::uint64_t seed) {
  std::optional<Mismatch> found;
  for (const auto& lane : lanes_) {
    look(lane.to, "where it arrived", bytes, seed ^ lane.number, found);
    if (lane.over_link)
      look(*lane.over_link, "as the other GPU loads it over the link", bytes, seed ^ lane.number, found);
  }
  return found;
}

void LaneLink::look(const Place& place, const char* reader, std::size_t bytes, std::uint64_t seed,
                    std::optional<Mismatch>& found) {
  select(place);
  const auto wrong = place.verifier->check(place.at, bytes, seed);
  if (!wrong || found) return;
  found = wrong;
  if (!complaint_.empty()) return;
  complaint_ = "the data differs from what was sent in " + std::to_string(wrong->wrong_bytes) + " of " +
               std::to_string(bytes) + " bytes, first at offset " + std::to_string(wrong->offset_bytes) + ", " + reader;
}

}  // namespace volley::node
