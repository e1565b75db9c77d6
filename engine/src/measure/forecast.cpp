#include "measure/forecast.hpp"

#include <cmath>
#include <iomanip>

namespace volley {
namespace {

// From about this size on, bandwidth dominates the time of a message; below, latency does.
constexpr std::size_t bandwidth_bytes = std::size_t{64} << 10;

std::ptrdiff_t open_ones(const std::vector<Series>& all) {
  return std::count_if(all.begin(), all.end(), [](const Series& series) { return series.open(); });
}

}  // namespace

// Only a long exchange tells: its time grows with the size.
void Forecast::skip_slow(std::vector<Series>& all) const {
  if (!sampling_.size_time_s) return;
  const double part_s = *sampling_.size_time_s / static_cast<double>(std::max<std::ptrdiff_t>(open_ones(all), 1));
  for (auto& series : all) {
    const Last* const found = last(series);
    if (!series.open() || found == nullptr) continue;
    const double growth = static_cast<double>(series.view.bytes) / static_cast<double>(found->bytes);
    const double expected_s = found->count_s * growth * static_cast<double>(min_exchanges());
    if (found->count_s <= workload_.limits.long_exchange_s || expected_s <= part_s) continue;
    std::ostringstream reason;
    reason << std::setprecision(2) << min_exchanges() << " " << workload_.name << " exceed the limit of " << part_s
           << " s for each transport (" << *sampling_.size_time_s << " s for this size)";
    series.skipped = reason.str();
  }
}

void Forecast::skip_late(std::vector<Series>& all, double left_s) {
  if (std::isinf(left_s)) return;
  const auto open = static_cast<double>(open_ones(all));
  for (auto& series : all) {
    if (!series.open()) continue;
    if (control_.shared(expected_s(series) * open >= left_s)) series.skipped = budget_reason;
  }
}

// A longer message adds its fewest exchanges, and about as much time for its contents and the pass. The time of a short
// message is latency, which does not grow. 0 if nothing is known of the series.
double Forecast::expected_s(const Series& series) const {
  const Last* const found = last(series);
  if (found == nullptr) return 0;
  const double once_s = series.fresh ? found->cold_s : 0;
  const double ratio = static_cast<double>(series.view.bytes) / static_cast<double>(found->bytes);
  if (ratio < 1) return once_s + found->elapsed_s * ratio + (sampling_.fixed ? 0 : sampling_.point_time_s);
  const double growth = found->bytes >= bandwidth_bytes ? ratio - 1 : 0;
  return once_s + found->elapsed_s + 2 * found->count_s * static_cast<double>(min_exchanges()) * growth;
}

}  // namespace volley
