#include "benchmark/pair_benchmark.hpp"

#include "group/group_control.hpp"
#include "measure/sampler.hpp"

namespace volley {

namespace {

// The series of one message size: one for each available transport, skipped where the size is not possible.
std::vector<Series> series_of_size(TransportSet& transports, const Plan& plan, std::uint64_t bytes,
                                   const std::optional<Window>& window, const std::string& skip_all) {
  std::vector<Series> all;
  for (auto& candidate : transports.candidates()) {
    if (!candidate.listed) continue;
    Series series = transports.series(candidate, bytes, plan.verify, window);
    if (!skip_all.empty()) series.skipped = skip_all;
    series.fresh = candidate.fresh;
    if (series.skipped.empty()) candidate.fresh = false;
    all.push_back(std::move(series));
  }
  return all;
}

}  // namespace

void PairBenchmark::read(PlanObject& options, const Plan& plan) {
  options.some_sizes("sizes_bytes", sizes_bytes_);
  if (plan.world_size == 2) return;
  options.complain_of_plan(
      "world_size", "`" + plan.benchmark + "` is between exactly 2 ranks, found " + std::to_string(plan.world_size));
}

Exit PairBenchmark::run(const Run& run) {
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

void PointBenchmark::read(PlanObject& options, const Plan& plan) {
  PairBenchmark::read(options, plan);
  options.boolean("fresh_buffers", fresh_buffers_);
}

std::vector<std::uint64_t> PointBenchmark::opened_sizes() const {
  return fresh_buffers_ ? std::vector{sizes_bytes_[0]} : sizes_bytes_;
}

void PointBenchmark::measure(const Run& run, const RankGroup& pair, TransportSet& transports) {
  const Workload timed = workload();
  MpiControl control(pair);
  Sampler sampler(control, run.plan.sampling, timed, run.watchdog);
  for (std::size_t i = 0; i < sizes_bytes_.size(); ++i) {
    if (fresh_buffers_ && i > 0) {
      transports.close();
      transports.open({sizes_bytes_[i]});
    }
    const std::string skip_all = out_of_time(pair, run.plan, run.records);
    auto all = series_of_size(transports, run.plan, sizes_bytes_[i], timed.window, skip_all);
    sampler.measure(all);
    for (const auto& series : all) run.records.write_point(record(pair.ranks, series));
  }
}

}  // namespace volley
