// Benchmarks of messages of several sizes between two ranks.
#pragma once

#include "benchmark/benchmark.hpp"
#include "benchmark/transport_set.hpp"
#include "measure/series.hpp"

namespace volley {

class PairBenchmark : public Benchmark {
 public:
  void read(PlanObject& options, const Plan& plan) override;
  Exit run(const Run& run) final;

 protected:
  // Why this benchmark cannot measure a transport; empty if it can.
  [[nodiscard]] virtual std::string unsuitable(const TransportEntry&) const { return {}; }
  // Measures all sizes and writes their records. Collective over the two ranks.
  virtual void measure(const Run& run, const RankGroup& pair, TransportSet& transports) = 0;

  // The sizes for which the transports are opened at first.
  [[nodiscard]] virtual std::vector<std::uint64_t> opened_sizes() const { return sizes_bytes_; }

  std::vector<std::uint64_t> sizes_bytes_;
};

// Ping-pongs and streams: at each size all transports in turn.
class PointBenchmark : public PairBenchmark {
 public:
  void read(PlanObject& options, const Plan& plan) override;

 protected:
  [[nodiscard]] virtual Workload workload() const = 0;
  [[nodiscard]] virtual Json record(const std::vector<int>& ranks, const Series& series) const = 0;

 private:
  [[nodiscard]] std::vector<std::uint64_t> opened_sizes() const final;
  void measure(const Run& run, const RankGroup& pair, TransportSet& transports) final;

  bool fresh_buffers_ = false;  // buffers are allocated anew for each size
};

}  // namespace volley
