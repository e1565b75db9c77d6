// A workload: what is timed. A series: the samples of a transport at one message size.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>

#include "host/memory.hpp"
#include "measure/timing_loop.hpp"

namespace volley {

// After the samples of a point one more call of the timed function is made, in which every message has a place of its
// own and is compared: several round trips, or several windows. How many, and how many messages a window has.
struct Pass {
  std::uint64_t counts = 0;
  std::uint64_t in_flight = 0;
};

inline constexpr std::size_t usual_pass_bytes = std::size_t{256} << 20;
// Buffers are at least so long, where memory allows it.
inline constexpr std::size_t usual_buffer_bytes = std::size_t{16} << 20;

// Of a pass: as many windows as show one that is neither the first nor the last, and more round trips.
inline constexpr std::uint64_t pass_windows = 3;
inline constexpr std::uint64_t pass_round_trips = 16;
inline constexpr std::uint64_t least_counts = 2;
inline constexpr std::uint64_t least_in_flight = 2;

// Bytes from one message of a pass to the next.
[[nodiscard]] inline std::size_t pass_stride(std::size_t message_bytes) {
  return round_up(message_bytes, guard_bytes) + 2 * guard_bytes;
}

// Bytes that a buffer must have so that a pass of messages of this length can be as large as it may be.
[[nodiscard]] inline std::size_t bytes_of_pass(std::size_t message_bytes) {
  constexpr std::uint64_t usual = pass_windows * static_cast<std::uint64_t>(Window{}.messages);
  const std::uint64_t most = usual_pass_bytes / std::max<std::size_t>(message_bytes, 1);
  return std::max(std::min(usual, most), least_counts * least_in_flight) * pass_stride(message_bytes);
}

// The limits of adaptive sampling, beside those of the plan.
struct SamplingLimits {
  // The shortest sample: long enough that the extra time of the first exchange on rewritten buffers is negligible.
  double sample_s = 1e-3;
  // Empty batches; the empty sample is their median.
  int empty_samples = 31;
  // The target length of a visit: several samples of a short exchange, two of a long one.
  double visit_s = 5e-3;
  // Untimed exchanges after a fill; fewer if they take longer than two visits. A message that was just written is in
  // the caches of its writer; after about this many exchanges it is in the reader's caches, if they are large enough.
  int warm_up_exchanges = 8;
  // The time limit for estimating the length of a batch, and the minimum number of batches of a short exchange.
  double calibration_s = 20e-3;
  int calibration_batches = 5;
  // A longer exchange gets only as many samples as an interval of the median needs. Its buffers are far larger than any
  // cache, so that no untimed exchange warms a cache.
  double long_exchange_s = 50e-3;
};

// What one count of the timing loop does: a round trip, or a window of messages.
struct Workload {
  const char* name;
  std::array<std::uint64_t, 2> messages;  // moved by one count: [0] first to second rank, [1] back
  double divisor;                         // seconds of one count are divided by this: 2 gives the half round trip
  bool second_times = false;              // the second rank times what it receives as well
  bool one_buffer = false;                // a fixed batch uses one buffer both ways, as the tutorial does
  std::uint64_t pass_counts = 0;          // of a pass, if there is room for its messages; 0: there is no pass
  // Messages of a pass have together at most this many bytes in each direction, unless two counts of two messages have
  // more: a call of one count cannot show that a transport makes only the first or the last.
  std::size_t pass_bytes = usual_pass_bytes;
  std::optional<Window> window = {};  // whose messages a rank has under way at once; none: round trips
  // Limit for a sample: without it, an exchange that takes no time (`null`) would never reach the minimum length.
  std::uint64_t max_counts = std::uint64_t{1} << 22;
  SamplingLimits limits = {};
};

// The largest pass whose messages have room in buffers of `buffer_bytes`; no counts if there is none.
[[nodiscard]] inline Pass pass_of(const Workload& workload, std::size_t message_bytes, std::size_t buffer_bytes) {
  const std::uint64_t usual = workload.messages[0];
  const std::uint64_t least = least_counts * std::min(usual, least_in_flight);
  const std::uint64_t places = buffer_bytes / pass_stride(message_bytes);
  const std::uint64_t most = std::min<std::uint64_t>(
      places, std::max<std::uint64_t>(workload.pass_bytes / std::max<std::size_t>(message_bytes, 1), least));
  if (workload.pass_counts == 0 || most < least_counts) return {};
  const std::uint64_t in_flight = std::min(usual, most / least_counts);
  return {.counts = std::min(workload.pass_counts, most / in_flight), .in_flight = in_flight};
}

[[nodiscard]] inline Workload round_trip_workload() {
  return {.name = "round trips", .messages = {1, 1}, .divisor = 2, .one_buffer = true, .pass_counts = pass_round_trips};
}

[[nodiscard]] inline Workload window_workload(const Window& window) {
  const bool both = window.direction == Direction::bi;
  const auto messages = static_cast<std::uint64_t>(window.messages);
  return {.name = both ? "windows both ways" : "windows one way",
          .messages = {messages, both ? messages : 0},
          .divisor = 1,
          .second_times = both,
          .pass_counts = pass_windows,
          .window = window};
}

enum class EndedBy { open, ci, time, few, fixed, failure };

// One series of samples: a transport (or a cell of a GPU matrix) at one message size, its results and its progress.
struct Series {
  std::string name;  // a series may reuse the calibration of an earlier series with the same name
  Driver* driver = nullptr;
  Verifier* verifier = nullptr;  // writes and checks the messages; null where they have no contents
  bool verify = true;            // otherwise the verifier only fills the send buffer, once
  MemoryKind memory = MemoryKind::none;
  View view;
  // Of each buffer, for messages at distinct addresses; 0: only last messages are checked.
  std::size_t buffer_bytes = 0;
  bool fresh = false;  // its driver has not used the buffers yet: the first exchange is cold

  // Results. Times are seconds of one count divided by the workload's divisor.
  std::string skipped;                     // the reason if it was skipped
  std::vector<double> first_samples;       // timed by the first rank
  std::vector<double> second_samples;      // timed by the second rank, where it times
  std::vector<double> mean_samples;        // the mean of the ends' own times, where Control::elapsed() gives it
  std::vector<double> entry_skew_s;        // of each sample: from the first end's entry to the last one's; may be empty
  std::vector<std::vector<double>> parts;  // of Driver::parts_s(), each of every sample, on the first rank
  std::vector<std::uint64_t> visits;       // samples of each visit, in order
  std::vector<double> work_s;              // the fixed piece of work at the start of each visit, on the first rank
  std::uint64_t count = 0;                 // of every sample
  std::optional<double> empty_s;
  std::optional<double> cold_s;
  std::uint64_t messages_timed = 0;
  std::uint64_t messages_verified = 0;
  Pass pass;  // after the samples
  std::optional<Mismatch> mismatch;
  EndedBy ended_by = EndedBy::open;
  double elapsed_s = 0;
  double cold_elapsed_s = 0;  // of elapsed_s: until the end of the cold exchange

  // Progress.
  std::uint64_t repetition = 0;           // of the pattern: fills of the send buffer so far
  std::uint64_t message = 0;              // the message of the fill that ended the last sample
  double count_s = 0;                     // an estimate of one count, the same on all ranks
  std::size_t next_look = 0;              // samples at which the interval is computed next
  std::uint64_t second_samples_sent = 0;  // samples of the second rank that the first has
  [[nodiscard]] bool verified() const { return verifier != nullptr && verify; }
  [[nodiscard]] bool open() const { return skipped.empty() && ended_by == EndedBy::open; }
};

// --- when a point has enough samples ---

// A two-sided interval of the median, in the unit of the samples.
struct Interval {
  double median;
  double low;
  double high;
};

// The fewest samples of which an interval of the median with 95 % coverage exists: 1 - 2 * 0.5^6 = 96.9 %.
inline constexpr std::size_t min_samples = 6;

// How many samples lie outside the interval at each end: the largest r with P(Binomial(n, 1/2) < r) <= 2.5 %, so that
// the r-th smallest and r-th largest sample bound the median with at least 95 % coverage, whatever the distribution
// (e.g. Conover, Practical Nonparametric Statistics, 3.2). Zero when n < min_samples.
[[nodiscard]] inline std::size_t interval_rank(std::size_t n) {
  // Exact cumulative binomial in logarithms: lgamma keeps it finite for any n.
  const double samples = static_cast<double>(n);
  double below = 0;
  std::size_t rank = 0;
  for (; rank < n / 2; ++rank) {
    const double i = static_cast<double>(rank);
    below += std::exp(std::lgamma(samples + 1) - std::lgamma(i + 1) - std::lgamma(samples - i + 1) -
                      samples * std::log(2.0));
    if (below > 0.025) break;
  }
  return rank;
}

// Middle of the sorted samples (mean of the middle two). Needs at least one sample.
[[nodiscard]] inline double median(std::vector<double> samples) {
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  if (samples.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(samples.begin(), middle)) / 2;
}

// The interval of the median by order statistics. Needs at least `min_samples` samples.
[[nodiscard]] inline Interval median_interval(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const std::size_t rank = interval_rank(samples.size());
  return {median(samples), samples[rank - 1], samples[samples.size() - rank]};
}

// Whether the interval of the median lies within median * (1 ± fraction).
[[nodiscard]] inline bool interval_within(std::span<const double> samples, double fraction) {
  if (samples.size() < min_samples) return false;
  const Interval found = median_interval({samples.begin(), samples.end()});
  return found.low >= found.median * (1 - fraction) && found.high <= found.median * (1 + fraction);
}

}  // namespace volley
