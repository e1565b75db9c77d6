// Takes samples: rounds over the series of one message size, verification, the decision when to stop.
#pragma once

#include <limits>

#include "measure/control.hpp"
#include "measure/series.hpp"
#include "measure/watchdog.hpp"
#include "record/plan.hpp"

namespace volley {

// The time of two clock readings in seconds: an empty timed batch.
[[nodiscard]] double clock_read_s();

class Sampler {
 public:
  Sampler(Control& control, const Sampling& sampling, const Workload& workload, Watchdog& watchdog)
      : control_(control), sampling_(sampling), workload_(workload), watchdog_(watchdog) {}

  // Measures every open series, all of the same message size, interleaved, in `left_s` seconds, which are the same on
  // all ends: a series that is expected to take more than its part of them is skipped. Collective over the ends; their
  // results are complete on the first.
  void measure(std::vector<Series>& all, double left_s = std::numeric_limits<double>::infinity());

 private:
  void skip_slow(std::vector<Series>& all);
  void skip_late(std::vector<Series>& all, double left_s);
  void begin(Series& series);
  void take_empty_samples(Series& series);
  bool reuse_calibration(Series& series);
  void calibrate(Series& series);
  double shortest_batch_s(Series& series, std::uint64_t count);
  void visit(Series& series);
  void tell_watchdog(const Series& series);
  void expect_writing(const Series& series);
  void fixed_batch(Series& series);
  void one_buffer_batch(Series& series);
  void end_round(std::vector<Series>& all, int rounds);

  void fill(Series& series);
  void fill_send_buffer(Series& series);
  void warm_up(Series& series, std::uint64_t exchanges);
  double sample(Series& series, std::uint64_t count);
  double timed_batch(Series& series, const View& view, std::uint64_t count);
  double batch(Series& series, const View& view, std::uint64_t count);
  double first_batch(Series& series, const View& view, std::uint64_t count);
  void record(Series& series, double elapsed_s, std::uint64_t count);

  void write_poison(Series& series, const View& view);
  void check_contents(Series& series, const View& view);
  void check_every_message(Series& series);
  void check_message(Series& series, const std::byte* message, const Contents& expected);
  [[nodiscard]] Contents expected(const Series& series) const;
  [[nodiscard]] bool receives() const {
    return workload_.messages[static_cast<std::size_t>(control_.receives() % 2)] > 0;
  }

  void collect(Series& series);
  [[nodiscard]] double slowest_count_s(const Series& series) const;
  [[nodiscard]] EndedBy stop_reason(Series& series, int rounds) const;
  [[nodiscard]] std::uint64_t seed(const Series& series, int direction) const;
  [[nodiscard]] bool is_long(const Series& series) const;
  [[nodiscard]] std::uint64_t warm_up_exchanges(const Series& series) const;
  [[nodiscard]] int samples_per_visit(const Series& series) const;
  [[nodiscard]] std::uint64_t min_exchanges() const;

  Control& control_;
  const Sampling& sampling_;
  const Workload& workload_;
  Watchdog& watchdog_;

  Elapsed elapsed_;                 // of the latest batch
  const Series* latest_ = nullptr;  // whose message was exchanged last

  // The results of the previous message size of a series.
  struct Calibration {
    std::size_t bytes;
    std::uint64_t count;
    double count_s;
    double elapsed_s;
  };
  [[nodiscard]] double expected_s(const Series& series) const;
  std::map<std::string, Calibration> last_;
};

}  // namespace volley
