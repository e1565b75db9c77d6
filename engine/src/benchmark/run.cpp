#include "benchmark/run.hpp"

#include "benchmark/rank_matrix/rank_matrix.hpp"
#include "benchmark/self_send.hpp"
#include "benchmark/series_records.hpp"
#include "benchmark/transport_set.hpp"
#include "benchmark/workloads.hpp"
#include "group/facts.hpp"
#include "group/mpi_control.hpp"
#include "measure/sampler.hpp"
#include "mpi/facts.hpp"
#include "mpi/text.hpp"

namespace volley {

namespace {

// The points of one message size: one for each available transport, skipped where it cannot be.
std::vector<Series> series_of_size(TransportSet& transports, const Plan& plan, std::uint64_t bytes,
                                   const std::string& skip_all) {
  std::vector<Series> all;
  for (auto& candidate : transports.candidates()) {
    if (!candidate.reason.empty()) continue;
    Series series = transports.series(candidate, bytes, plan.verify);
    if (!skip_all.empty()) series.skipped = skip_all;
    series.fresh = candidate.fresh;
    if (series.skipped.empty()) candidate.fresh = false;
    all.push_back(std::move(series));
  }
  return all;
}

// Why no more points are started, as the first rank sees it; empty while there is time.
std::string out_of_time(const RankGroup& pair, const Plan& plan, const Records& records) {
  const bool over = pair.leads() && budget_used(plan, records);
  return mpi::broadcast_value(over, 0, pair.control.get()) ? budget_reason(plan) : "";
}

void sweep(const RankGroup& pair, const Plan& plan, TransportSet& transports, Records& records, Watchdog& watchdog) {
  const Workload workload = plan.benchmark == Benchmark::stream ? stream_workload(plan.window) : pingpong_workload();
  MpiControl control(pair);
  Sampler sampler(control, plan.sampling, workload, watchdog);
  if (!plan.fresh_buffers) transports.open(plan.sizes_bytes);
  for (const auto bytes : plan.sizes_bytes) {
    if (plan.fresh_buffers) transports.open({bytes});
    auto all = series_of_size(transports, plan, bytes, out_of_time(pair, plan, records));
    sampler.measure(all);
    for (const auto& series : all) records.write_point(point_record(plan, pair, series));
    if (plan.fresh_buffers) transports.close();
  }
  transports.close();
}

}  // namespace

Exit run_plan(const Context& context, const Plan& plan, Records& records, Watchdog& watchdog) {
  if (context.size < 2) {
    watchdog.enter("sending to itself");
    for (const auto& name : plan.transports) {
      const TransportEntry& entry = *find_transport(name);
      records.write(transport_record(entry, sent_to_itself(context, plan, entry), Json::object()));
    }
    return Exit::good;
  }
  if (plan.benchmark == Benchmark::matrix) {
    run_matrix(context, plan, records, watchdog);
    return mpi::broadcast_value(records.failed(), 0, context.world.get()) ? Exit::failed : Exit::good;
  }
  const auto pair = make_group(context, {0, 1});
  if (!pair) return Exit::good;  // a rank that the plan has no work for
  watchdog.enter("finding out which transports can be used");
  TransportSet transports(context, *pair, plan);
  for (const auto& candidate : transports.candidates()) {
    records.write(transport_record(*candidate.entry, candidate.reason, to_json(candidate.transport->facts())));
  }
  if (plan.benchmark != Benchmark::probe && !plan.sizes_bytes.empty())
    sweep(*pair, plan, transports, records, watchdog);
  const bool failed = mpi::broadcast_value(records.failed(), 0, pair->control.get());
  return failed ? Exit::failed : Exit::good;
}

}  // namespace volley
