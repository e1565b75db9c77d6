// The clock of a node as the clock of the first rank's node, from comparisons of both.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <utility>

namespace volley {

// How far this node's clock was ahead when it showed `at_ns`, and by how much that may be wrong.
struct ClockComparison {
  std::int64_t at_ns = 0;
  std::int64_t ahead_ns = 0;
  std::int64_t error_ns = 0;
};

// Two clocks run at rates that differ by up to about 100 ppm: 100 µs in a second. After two comparisons the difference
// of the rates is known and extrapolated; the next comparison shows how wrong that was.
class NodeClock {
 public:
  void compared(const ClockComparison& now) {
    worst_ns_ = std::max(worst_ns_, now.error_ns);
    if (last_) {
      const std::int64_t missed_ns = std::llabs(now.ahead_ns - ahead_ns(now.at_ns));
      worst_ns_ = std::max(worst_ns_, missed_ns + now.error_ns);
    }
    if (!first_) first_ = now;
    const std::int64_t since_ns = now.at_ns - first_->at_ns;
    // The rate is not known better than the comparisons allow.
    const double uncertain = static_cast<double>(now.error_ns + first_->error_ns);
    const double drift_ns = static_cast<double>(now.ahead_ns - first_->ahead_ns);
    rate_ = since_ns > 0 && std::abs(drift_ns) > uncertain ? drift_ns / static_cast<double>(since_ns) : 0;
    last_ = now;
  }

  [[nodiscard]] std::int64_t common_ns(std::int64_t own_ns) const { return own_ns - ahead_ns(own_ns); }

  // The largest error so far.
  [[nodiscard]] std::int64_t error_ns() const { return worst_ns_; }
  // The largest error since the last call.
  [[nodiscard]] std::int64_t take_error_ns() { return std::exchange(worst_ns_, 0); }

 private:
  [[nodiscard]] std::int64_t ahead_ns(std::int64_t own_ns) const {
    if (!last_) return 0;
    return last_->ahead_ns + std::llround(rate_ * static_cast<double>(own_ns - last_->at_ns));
  }

  std::optional<ClockComparison> first_;
  std::optional<ClockComparison> last_;
  double rate_ = 0;
  std::int64_t worst_ns_ = 0;
};

}  // namespace volley
