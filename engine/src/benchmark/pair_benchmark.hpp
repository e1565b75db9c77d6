// Benchmarks of messages of several sizes between two ranks.
#pragma once

#include "benchmark/benchmark.hpp"
#include "benchmark/transport_set.hpp"
#include "group/group_control.hpp"
#include "measure/sampler.hpp"

namespace volley {

class PairBenchmark : public Benchmark {
 public:
  void read(PlanObject& options, const Plan& plan) override {
    options.some_sizes("sizes_bytes", sizes_bytes_);
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
  // The sizes for which the transports are opened at first.
  [[nodiscard]] virtual std::vector<std::uint64_t> opened_sizes() const { return sizes_bytes_; }

  std::vector<std::uint64_t> sizes_bytes_;
};

// Ping-pongs and streams: at each size all transports in turn.
class PointBenchmark : public PairBenchmark {
 public:
  void read(PlanObject& options, const Plan& plan) override {
    PairBenchmark::read(options, plan);
    options.boolean("fresh_buffers", fresh_buffers_);
  }

 protected:
  [[nodiscard]] virtual Workload workload() const = 0;
  [[nodiscard]] virtual Json record(const std::vector<int>& ranks, const Series& series) const = 0;

 private:
  [[nodiscard]] std::vector<std::uint64_t> opened_sizes() const final {
    return fresh_buffers_ ? std::vector{sizes_bytes_[0]} : sizes_bytes_;
  }

  void measure(const Run& run, const RankGroup& pair, TransportSet& transports) final {
    const Workload timed = workload();
    MpiControl control(pair);
    Sampler sampler(control, run.plan.sampling, timed, run.watchdog);
    for (std::size_t i = 0; i < sizes_bytes_.size(); ++i) {
      if (fresh_buffers_ && i > 0) {
        transports.close();
        transports.open({sizes_bytes_[i]});
      }
      const std::string out = out_of_time(pair, run.plan, run.records);
      std::vector<Series> all;
      for (auto& candidate : transports.candidates()) {
        if (!candidate.listed) continue;
        Series& series = all.emplace_back(transports.series(candidate, sizes_bytes_[i], run.plan.verify, timed.window));
        if (!out.empty()) series.skipped = out;
        series.fresh = candidate.fresh;
        if (series.skipped.empty()) candidate.fresh = false;
      }
      sampler.measure(all);
      for (const auto& series : all) run.records.write_point(record(pair.ranks, series));
    }
  }

  bool fresh_buffers_ = false;  // buffers are allocated anew for each size
};

}  // namespace volley
