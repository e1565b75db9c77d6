// Takes samples: rounds over the series of one message size; then the pass, in which every message is checked.
#pragma once

#include <limits>

#include "measure/calibration.hpp"

namespace volley {

// The time of two clock readings in seconds: an empty timed batch.
[[nodiscard]] double clock_read_s();

// The order of `count` series in a round: a permutation that depends on the number of the round, the same on all ends.
// With a rotation each series would always follow the same one.
[[nodiscard]] std::vector<std::size_t> order_of_round(std::size_t count, std::uint64_t round);

class Sampler : Measuring {
 public:
  Sampler(Control& control, const Sampling& sampling, const Workload& workload, Watchdog& watchdog);

  // Measures every open series, all of the same message size, interleaved, in `left_s` seconds, which are the same on
  // all ends: a series that is expected to take more than its part of them is skipped, and when they are over the
  // others end with their round. Then makes their passes.
  // Collective over the ends; their results are complete on the first.
  void measure(std::vector<Series>& all, double left_s = std::numeric_limits<double>::infinity()) {
    sample(all, left_s);
    verify(all);
  }

  // The two parts: the samples, each with the check of its last message, and the passes.
  void sample(std::vector<Series>& all, double left_s = std::numeric_limits<double>::infinity());
  void verify(std::vector<Series>& all);

 private:
  [[nodiscard]] CheckedMessages messages_of(const Series& series, const View& last) const;
  void begin(Series& series);
  void fill(Series& series);
  void visit(Series& series);
  void fixed_batch(Series& series);
  void one_buffer_batch(Series& series);
  [[nodiscard]] int batches_per_visit(const Series& series) const;
  void warm_up(Series& series, std::uint64_t exchanges);
  double take(Series& series, std::uint64_t count);
  void record(Series& series, double elapsed_s, std::uint64_t count);
  void check_every_message(Series& series, double most_s);
  void check_waiting(Series& series);
  void note(Series& series, std::optional<Mismatch> found) const;
  void end_round(std::vector<Series>& all);
  void collect(Series& series);

  // Of the time that this size has, on this end.
  [[nodiscard]] double left_s() const { return left_s_ - seconds_since(begun_); }

  Batches batches_;
  Forecast forecast_;
  Calibration calibration_;
  std::uint64_t rounds_ = 0;  // of all sizes
  Clock::time_point begun_;   // with this size, which has so much time
  double left_s_ = 0;
};

}  // namespace volley
