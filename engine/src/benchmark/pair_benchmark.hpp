// Benchmarks of messages of several sizes between two ranks.
#pragma once

#include "benchmark/benchmark.hpp"
#include "benchmark/transport_set.hpp"
#include "group/group_control.hpp"

namespace volley {

class PairBenchmark : public Benchmark {
 public:
  void read(PlanObject& options, const Plan& plan) override {
    options.some_sizes("sizes_bytes", sizes_bytes_, least_bytes());
    if (plan.world_size == 2) return;
    options.complain_of_plan(
        "world_size", "`" + plan.benchmark + "` is between exactly 2 ranks, found " + std::to_string(plan.world_size));
  }

  Exit run(const Run& run) final {
    const auto pair = make_group(*run.context, {0, 1});
    if (!pair) return Exit::good;  // this rank takes no part
    TransportSet transports(*run.context, *pair, run.plan, run.watchdog);
    for (auto& candidate : transports.candidates()) {
      if (candidate.reason.empty()) candidate.reason = unsuitable(*candidate.entry);
    }
    transports.open(opened_sizes());
    transports.write_records(run.records);
    measure(run, *pair, transports);
    transports.close();
    return Exit::good;
  }

 protected:
  // Why this benchmark cannot measure a transport; empty if it can.
  [[nodiscard]] virtual std::string unsuitable(const TransportEntry&) const { return {}; }
  // Measures all sizes and writes their records. Collective over the two ranks.
  virtual void measure(const Run& run, const RankGroup& pair, TransportSet& transports) = 0;
  // Of a message: 0 where an empty one is measured too.
  [[nodiscard]] virtual std::int64_t least_bytes() const { return 1; }
  // The sizes for which the transports are opened at first.
  [[nodiscard]] virtual std::vector<std::uint64_t> opened_sizes() const { return sizes_bytes_; }

  std::vector<std::uint64_t> sizes_bytes_;
};

}  // namespace volley
