// Batches of a series: each is announced to the watchdog, which then knows how long it may take.
#pragma once

#include "measure/series.hpp"

namespace volley {

class Batches : Measuring {
 public:
  explicit Batches(const Measuring& of) : Measuring(of) {}

  // The batch of `count`, in seconds. Its length is estimated by the series' count_s.
  double run(Series& series, const View& view, std::uint64_t count) {
    const double count_s = series.count_s > 0 ? 10 * series.count_s : slowest_count_s(series);
    watchdog_.progress(count_s * static_cast<double>(count));
    const Span mine = series.driver->batch(view, count, workload_.window);
    if (count == 0) return seconds_of(mine);  // the clock alone; the ends do not meet
    latest_ = control_.elapsed(mine);
    series.view = series.view.message(moved(count));
    return latest_.seconds;
  }

  // The same; nothing may be known of its length. Then its first exchange is timed alone, so that the watchdog knows
  // how long the others may take; on fresh buffers this is the cold exchange. Returns the seconds of both parts.
  double run_first(Series& series, const View& view, std::uint64_t count) {
    if (series.count_s > 0) return run(series, view, count);
    View before_last = view;
    before_last.last_offset = 0;
    series.count_s = run(series, count > 1 ? before_last : view, 1);
    const double first_s = series.count_s;
    if (series.fresh && !series.cold_s) series.cold_s = first_s / workload_.divisor;
    if (count == 1) return first_s;
    const double first_mean_s = latest_.mean_s.value_or(0);
    const double others_s = run(series, view.message(moved(1)), count - 1);
    if (latest_.mean_s) *latest_.mean_s += first_mean_s;
    series.count_s = others_s / static_cast<double>(count - 1);
    return first_s + others_s;
  }

  // The messages of a direction in so many counts.
  [[nodiscard]] std::uint64_t moved(std::uint64_t count) const { return count * messages_per_count(workload_.window); }

  // What the ends know of the batch before.
  [[nodiscard]] const Elapsed& latest() const { return latest_; }

  void enter(const Series& series) {
    watchdog_.enter("transport " + series.title() + ", " + control_.name() + ", " + std::to_string(series.view.bytes) +
                    " B, " + workload_.name);
    expect_writing(series.view.bytes);
  }

  // Messages are written next, to pages that may be touched first: what is sent, and poison.
  void expect_writing(std::size_t bytes) { watchdog_.progress(2 * static_cast<double>(bytes) / slowest_bytes_per_s); }

  // The longest that one count can take before any was timed.
  [[nodiscard]] double slowest_count_s(const Series& series) const {
    const auto messages = static_cast<double>(workload_.messages[0] + workload_.messages[1]);
    return messages * static_cast<double>(series.view.bytes) / slowest_bytes_per_s;
  }

  [[nodiscard]] bool is_long(const Series& series) const { return series.count_s > workload_.limits.long_exchange_s; }

 private:
  Elapsed latest_;
};

}  // namespace volley
