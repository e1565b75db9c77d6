#include "measure/stopping.hpp"

#include <algorithm>
#include <cmath>

namespace volley {

std::size_t interval_rank(std::size_t n) {
  // Exact cumulative binomial in logarithms: lgamma keeps it finite for any n.
  const double samples = static_cast<double>(n);
  double below = 0;
  std::size_t rank = 0;
  while (rank < n / 2) {
    const double i = static_cast<double>(rank);
    below += std::exp(std::lgamma(samples + 1) - std::lgamma(i + 1) - std::lgamma(samples - i + 1) -
                      samples * std::log(2.0));
    if (below > 0.025) break;
    ++rank;
  }
  return rank;
}

double median(std::vector<double> samples) {
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  if (samples.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(samples.begin(), middle)) / 2;
}

Interval median_interval(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const std::size_t rank = interval_rank(samples.size());
  const std::size_t n = samples.size();
  const double middle = n % 2 == 1 ? samples[n / 2] : (samples[n / 2 - 1] + samples[n / 2]) / 2;
  return {middle, samples[rank - 1], samples[n - rank]};
}

bool interval_within(std::span<const double> samples, double fraction) {
  if (samples.size() < min_samples) return false;
  const Interval found = median_interval({samples.begin(), samples.end()});
  return found.low >= found.median * (1 - fraction) && found.high <= found.median * (1 + fraction);
}

}  // namespace volley
