// When a point has enough samples: the interval of the median, and the rule that decides by it.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

#include "record/plan.hpp"

namespace volley {

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

// Percentiles (one exchange per sample) need at least this many samples for the 99th.
inline constexpr std::size_t tail_samples = 1000;

enum class EndedBy { open, ci, time, few, fixed, failure };

// What a point has at the end of a round.
struct Taken {
  std::span<const double> first_samples = {};
  std::span<const double> second_samples = {};  // of the second end, where it times
  int visits = 0;
  double sampling_s = 0;    // of its exchanges in these visits
  bool is_long = false;     // one exchange takes so long that it gets the fewest visits
  bool is_late = false;     // no time is left
  bool has_failed = false;  // a message was wrong
};

// Decides whether a point ends. The first end asks it at the end of each round and tells the others.
class StoppingRule {
 public:
  [[nodiscard]] EndedBy ended(const Sampling& plan, const Taken& taken) {
    if (taken.has_failed) return EndedBy::failure;
    if (plan.fixed) return EndedBy::fixed;
    if (taken.visits < plan.min_visits && !taken.is_late) return EndedBy::open;
    const auto both_within = [&] {
      return interval_within(taken.first_samples, plan.ci) &&
             (taken.second_samples.empty() || interval_within(taken.second_samples, plan.ci));
    };
    if (taken.is_long) return both_within() ? EndedBy::ci : EndedBy::few;
    const std::size_t samples = taken.first_samples.size();
    if (samples >= std::max(next_look_, plan.tail ? tail_samples : min_samples)) {
      if (both_within()) return EndedBy::ci;
      next_look_ = samples + samples / 10;  // a rule that looks often makes intervals too narrow
    }
    return taken.is_late || taken.sampling_s >= plan.point_time_s ? EndedBy::time : EndedBy::open;
  }

 private:
  std::size_t next_look_ = 0;  // samples at which the interval is computed next
};

}  // namespace volley
