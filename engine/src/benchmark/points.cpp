// The benchmarks `pingpong`, a message there and back, and `stream`, windows of messages one way or both: at each size
// all transports in turn.
#include "benchmark/transport_set.hpp"
#include "group/group_control.hpp"
#include "measure/sampler.hpp"

namespace volley {
namespace {

class PointBenchmark final : public SweepBenchmark {
 public:
  explicit PointBenchmark(bool windows) : windows_(windows) {}

  void read(PlanObject& options, const Plan& plan) override {
    SweepBenchmark::read(options, plan);
    options.boolean("fresh_buffers", fresh_buffers_);
    read_cold_cache(options, plan, cold_caches_);
    if (windows_) read_window(options, window_);
  }

 private:
  [[nodiscard]] std::uint64_t least_bytes() const override { return windows_ ? 1 : 0; }
  [[nodiscard]] std::vector<std::uint64_t> opened_sizes() const override {
    return fresh_buffers_ ? std::vector{sizes_bytes_[0]} : sizes_bytes_;
  }

  void measure(const Run& run, const RankGroup& pair, TransportSet& transports) override {
    Workload timed = windows_ ? window_workload(window_) : round_trip_workload();
    timed.limits.first_pass_s = 0.3;  // 66,000 round trips of 4.5 us
    MpiControl control(pair);
    Sampler sampler(control, run.plan.sampling, timed, run.watchdog);
    for (std::size_t i = 0; i < sizes_bytes_.size(); ++i) {
      if (fresh_buffers_ && i > 0) {
        transports.close();
        transports.open({sizes_bytes_[i]});
      }
      std::vector<Series> all;
      for (auto& candidate : transports.candidates()) {
        if (!candidate.listed) continue;
        Series& series = all.emplace_back(transports.series(candidate, sizes_bytes_[i], run.plan.verify, timed.window));
        series.fresh = candidate.fresh;
        if (series.skipped.empty()) candidate.fresh = false;
      }
      sampler.measure(all, time_left_s(pair, run.plan, run.records));
      for (const auto& series : all) run.records.write_point(record(pair.ranks, series));
    }
  }

  // Latency is the half round trip. With both directions each rank times what it receives: the first rank times the way
  // back.
  [[nodiscard]] Json record(const std::vector<int>& ranks, const Series& series) const {
    if (!windows_) {
      return point_record("pingpong", ranks, series,
                          {{"half_round_trip_s", series.first_samples},
                           {"exchanges_per_sample", series.sampled()},
                           {"cold_half_round_trip_s", or_null(series.cold_s)}});
    }
    const bool both = window_.direction == Direction::bi;
    return point_record("stream", ranks, series,
                        {{"direction", name_of(window_.direction)},
                         {"window", window_.messages},
                         {"forward_s", both ? series.second_samples : series.first_samples},
                         {"backward_s", both ? series.first_samples : std::vector<double>{}},
                         {"windows_per_sample", series.count},
                         {"cold_window_s", or_null(series.cold_s)}});
  }

  const bool windows_;
  Window window_;
  bool fresh_buffers_ = false;  // buffers are allocated anew for each size
};

}  // namespace

std::unique_ptr<Benchmark> make_pingpong() { return std::make_unique<PointBenchmark>(/*windows*/ false); }
std::unique_ptr<Benchmark> make_stream() { return std::make_unique<PointBenchmark>(/*windows*/ true); }

}  // namespace volley
