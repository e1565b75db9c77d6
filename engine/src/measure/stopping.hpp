// When a point has enough samples.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace volley {

// A two-sided interval of the median, in the unit of the samples.
struct Interval {
  double median;
  double low;
  double high;
};

// The fewest samples of which an interval of the median with 95 % coverage exists: 1 - 2 * 0.5^6 = 96.9 %.
inline constexpr std::size_t min_samples = 6;

// How many samples lie outside the interval at each end: the largest r with
// P(Binomial(n, 1/2) < r) <= 2.5 %, so that the r-th smallest and r-th largest sample bound the median with
// at least 95 % coverage, whatever the distribution (e.g. Conover, Practical Nonparametric Statistics, 3.2).
// Zero when n < min_samples.
[[nodiscard]] std::size_t interval_rank(std::size_t n);

// The interval of the median by order statistics. Needs at least `min_samples` samples.
[[nodiscard]] Interval median_interval(std::vector<double> samples);

// Middle of the sorted samples (mean of the middle two). Needs at least one sample.
[[nodiscard]] double median(std::vector<double> samples);

// True when the interval of the median lies within median * (1 ± fraction).
[[nodiscard]] bool interval_within(std::span<const double> samples, double fraction);

}  // namespace volley
