// The benchmark `stream`: windows of messages, one way or both; bandwidth.
#include "benchmark/benchmark.hpp"
#include "benchmark/pair_benchmark.hpp"
#include "benchmark/series_record.hpp"

namespace volley {

namespace {

class StreamBenchmark final : public PointBenchmark {
 public:
  void read(PlanObject& options, const Plan& plan) override {
    PointBenchmark::read(options, plan);
    read_window(options, window_);
  }

 private:
  Workload workload() const override { return window_workload(window_); }

  // With both directions each rank times what it receives: the first rank times the way back.
  Json record(const std::vector<int>& ranks, const Series& series) const override {
    const bool both = window_.direction == Direction::bi;
    return point_record("stream", ranks, series,
                        {{"direction", name_of(window_.direction)},
                         {"window", window_.messages},
                         {"forward_s", both ? series.second_samples : series.first_samples},
                         {"backward_s", both ? series.first_samples : std::vector<double>{}},
                         {"windows_per_sample", series.count},
                         {"cold_window_s", or_null(series.cold_s)}});
  }

  Window window_;
};

}  // namespace

std::unique_ptr<Benchmark> make_stream() { return std::make_unique<StreamBenchmark>(); }

}  // namespace volley
