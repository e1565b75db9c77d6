// What a series takes, expected from its last message size; and which series are skipped because of it.
#pragma once

#include <map>

#include "measure/series.hpp"

namespace volley {

// The samples of a visit, at least: those of a long exchange.
inline constexpr int min_samples_a_visit = 2;

class Forecast : Measuring {
 public:
  explicit Forecast(const Measuring& of) : Measuring(of) {}

  // The results of a series at its last size.
  struct Last {
    std::size_t bytes;
    std::uint64_t count;
    double count_s;
    double elapsed_s;  // after the cold exchange, with a pass as at the next size
    double cold_s;     // until its end; only fresh buffers have one: NCCL connects in it, for a second
  };
  [[nodiscard]] const Last* last(const Series& series) const {
    const auto found = last_.find(series.title());
    return found == last_.end() ? nullptr : &found->second;
  }
  void remember(const Series& series) {
    if (series.count == 0 || series.view.bytes == 0) return;  // an empty message says nothing of longer ones
    const double again_s = series.elapsed_s - series.cold_elapsed_s - series.long_pass_s;
    last_[series.title()] = {series.view.bytes, series.count, series.count_s, again_s, series.cold_elapsed_s};
  }

  // Skips every series whose fewest exchanges exceed its part of the plan's time for a message size.
  void skip_slow(std::vector<Series>& all) const;
  // Skips every series for which `left_s` of the plan's time budget is too little, as the first end expects.
  void skip_late(std::vector<Series>& all, double left_s);

 private:
  [[nodiscard]] double expected_s(const Series& series) const;
  // How many exchanges a point with long ones has: in each visit two samples, and one untimed before them.
  [[nodiscard]] std::uint64_t min_exchanges() const {
    if (sampling_.fixed) return sampling_.warmup + sampling_.iterations;
    return static_cast<std::uint64_t>(sampling_.min_visits) * (min_samples_a_visit + 1);
  }

  std::map<std::string, Last> last_;
};

}  // namespace volley
