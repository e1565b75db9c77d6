// The benchmarks `pingpong`, a message there and back, and `stream`, windows of messages one way or both.
#include "benchmark/pair_benchmark.hpp"
#include "benchmark/series_record.hpp"

namespace volley {
namespace {

// Latency is the half round trip.
class PingPongBenchmark final : public PointBenchmark {
  Workload workload() const override { return round_trip_workload(); }

  Json record(const std::vector<int>& ranks, const Series& series) const override {
    return point_record("pingpong", ranks, series,
                        {{"half_round_trip_s", series.first_samples},
                         {"exchanges_per_sample", series.count},
                         {"cold_half_round_trip_s", or_null(series.cold_s)}});
  }
};

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

std::unique_ptr<Benchmark> make_pingpong() { return std::make_unique<PingPongBenchmark>(); }
std::unique_ptr<Benchmark> make_stream() { return std::make_unique<StreamBenchmark>(); }

}  // namespace volley
