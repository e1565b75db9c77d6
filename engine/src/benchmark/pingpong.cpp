// The benchmark `pingpong`: a message there and back; latency is the half round trip.
#include "benchmark/pair_benchmark.hpp"
#include "benchmark/series_record.hpp"

namespace volley {

namespace {

class PingPongBenchmark final : public PointBenchmark {
  Workload workload() const override { return round_trip_workload(); }

  Json record(const std::vector<int>& ranks, const Series& series) const override {
    return point_record("pingpong", ranks, series,
                        {{"half_round_trip_s", series.first_samples},
                         {"exchanges_per_sample", series.count},
                         {"cold_half_round_trip_s", or_null(series.cold_s)}});
  }
};

}  // namespace

std::unique_ptr<Benchmark> make_pingpong() { return std::make_unique<PingPongBenchmark>(); }

}  // namespace volley
