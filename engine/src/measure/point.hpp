// One point of a measurement: a transport at a message size, what was found and how far it is.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "../memory.hpp"
#include "../transport/entry.hpp"
#include "exchanger.hpp"

namespace volley {

// How much time a measurement gives to being sure.
struct Pace {
  // A sample is at least this long: what its first exchange pays for buffers that were just rewritten does not show.
  double sample_s = 1e-3;
  // Batches of nothing, whose median is the empty sample.
  int empty_samples = 31;
  // A visit takes about this long: several samples of a short exchange, two of a long one.
  double visit_s = 5e-3;
  // The time that finding out how long a batch takes may take itself, and the fewest batches of a short exchange.
  double calibration_s = 20e-3;
  int calibration_batches = 5;
  // An exchange longer than this needs only as many samples as an interval of the median needs, and its buffers are
  // far larger than any cache that an untimed exchange could warm.
  double lasting_exchange_s = 50e-3;
};

// What one count of the timing loop does: an exchange of a ping-pong, or a window of a stream.
struct Exercise {
  const char* name;
  std::function<void(Exchanger&, const View&, std::uint64_t)> run;
  std::array<std::uint64_t, 2> messages;  // moved by one count: [0] first to second rank, [1] back
  double parts;                           // seconds of one count are divided by this: 2 gives the half round trip
  bool second_times;                      // the second rank times what it receives as well
  bool one_buffer;                        // a fixed batch uses one buffer both ways, as the tutorial does
  // Of a sample. An exchange that costs the first rank nothing at all (`null`) must not make one of endless length.
  std::uint64_t most_counts = std::uint64_t{1} << 22;
  Pace pace = {};
};

enum class EndedBy { open, interval, time, few, fixed, failure };

struct Point {
  const TransportEntry* entry = nullptr;
  Exchanger* transport = nullptr;
  Verifier* memory = nullptr;  // null where there is nothing to verify
  View view;
  bool fresh = false;  // its buffers have never been used: the first exchange is cold

  // What was found. Times are seconds of one count divided by the exercise's parts.
  std::string skipped;           // why, when it was
  std::vector<double> led;       // timed by the first rank
  std::vector<double> followed;  // timed by the second rank, where it times
  std::uint64_t count = 0;       // of every sample
  std::optional<double> empty_s;
  std::optional<double> cold_s;
  std::uint64_t messages_timed = 0;
  std::uint64_t messages_verified = 0;
  std::optional<Mismatch> mismatch;
  EndedBy ended_by = EndedBy::open;
  double elapsed_s = 0;

  // How far it is.
  std::uint64_t repetition = 0;  // of the pattern
  double count_s = 0;            // what one count takes, about; the same number on both ranks
  std::size_t next_look = 0;     // samples at which the interval is computed next
  std::uint64_t told = 0;        // samples of the second rank that the first knows
  [[nodiscard]] bool open() const { return skipped.empty() && ended_by == EndedBy::open; }
};

}  // namespace volley
