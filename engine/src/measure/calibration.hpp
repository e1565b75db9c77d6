// Calibration: what a batch takes besides its exchanges (the empty sample), and how many exchanges make a sample.
#pragma once

#include "measure/batches.hpp"
#include "measure/forecast.hpp"

namespace volley {

class Calibration : Measuring {
 public:
  Calibration(const Measuring& of, Batches& batches) : Measuring(of), batches_(batches) {}

  // Sets empty_s, count and count_s; from the last size of the series, where that is enough. Not before the first
  // exchange, which is the cold one: an empty batch of one-sided MPI communicates.
  void calibrate(Series& series, const Forecast::Last* last);
  // Sets empty_s to the median of empty batches.
  void take_empty_samples(Series& series);
  // Whether the samples of a series are far too short; then its next ones have more exchanges. The same on all ends.
  [[nodiscard]] bool lengthens(Series& series);

 private:
  void add_cost_of_batch(Series& series);
  [[nodiscard]] bool reuse(Series& series, const Forecast::Last& last) const;
  void find_count(Series& series);
  [[nodiscard]] std::uint64_t wanted_count(const Series& series, double count_s) const;
  [[nodiscard]] double shortest_batch_s(Series& series, std::uint64_t count);

  Batches& batches_;
};

}  // namespace volley
