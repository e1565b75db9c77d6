#include "lanes.cuh"

#include <future>
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

namespace {

// To start a thread takes as long as to look at a message of a few megabytes.
constexpr std::size_t bytes_worth_a_thread = std::size_t{8} << 20;

// The seed is that of the direction there; the lowest bit tells the directions apart (measure/pattern.hpp).
Contents of_lane(const Contents& there, const Lane& lane) { return {there.seed ^ lane.number, there.first_word}; }

}  // namespace

void LaneLink::fill(std::byte*, std::size_t bytes, const Contents& contents) {
  for (const auto& lane : lanes_) {
    select(lane.from);
    lane.from.verifier->fill(lane.from.at, bytes, of_lane(contents, lane));
  }
}

void LaneLink::poison(std::byte*, std::size_t bytes, const Contents& expected) {
  for (const auto& lane : lanes_) {
    select(lane.to);
    lane.to.verifier->poison(lane.to.at, bytes, of_lane(expected, lane));
  }
}

// Who looks at what are different GPUs, or different buffers of one: they look side by side.
std::optional<Mismatch> LaneLink::check(const std::byte*, std::size_t bytes, const Contents& expected) {
  struct Looking {
    const char* reader;
    std::future<std::optional<Mismatch>> wrong;
  };
  std::vector<Looking> all;
  const auto policy = bytes < bytes_worth_a_thread ? std::launch::deferred : std::launch::async | std::launch::deferred;
  const auto look = [&](const Place& place, const char* reader, const Contents& contents) {
    all.push_back({reader, std::async(policy, [&place, bytes, contents] {
                     select(place);
                     return place.verifier->check(place.at, bytes, contents);
                   })});
  };
  for (const auto& lane : lanes_) {
    look(lane.to, "where it arrived", of_lane(expected, lane));
    if (lane.over_link) look(*lane.over_link, "as the other GPU loads it over the link", of_lane(expected, lane));
  }
  std::optional<Mismatch> found;
  for (auto& [reader, pending] : all) {
    const auto wrong = pending.get();
    if (!wrong || found) continue;
    found = wrong;
    if (complaint_.empty()) complain(*wrong, bytes, reader);
  }
  return found;
}

void LaneLink::complain(const Mismatch& wrong, std::size_t bytes, const char* reader) {
  complaint_ = "the data differs from what was sent in " + std::to_string(wrong.wrong_bytes) + " of " +
               std::to_string(bytes) + " bytes, first at offset " + std::to_string(wrong.offset_bytes) + ", " + reader;
}

}  // namespace volley::node
