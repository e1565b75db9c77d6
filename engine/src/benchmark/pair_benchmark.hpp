// The common part of ping-pongs and streams: messages of several sizes between two ranks, and at each size all
// transports in turn.
#pragma once

#include "benchmark/benchmark.hpp"
#include "benchmark/transport_set.hpp"
#include "measure/workload.hpp"

namespace volley {

class PairBenchmark : public Benchmark {
 public:
  void read(PlanPart& options, const Plan& plan) override;
  Exit run(const Run& run) override;

 protected:
  [[nodiscard]] virtual Workload workload() const = 0;
  [[nodiscard]] virtual Json record(const std::vector<int>& ranks, const Series& series) const = 0;

 private:
  void measure(const Run& run, const RankGroup& pair, TransportSet& transports) const;

  std::vector<std::uint64_t> sizes_bytes_;
  bool fresh_buffers_ = false;
};

}  // namespace volley
