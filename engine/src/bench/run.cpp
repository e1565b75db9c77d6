#include "run.hpp"

#include "../measure/sampler.hpp"
#include "../mpi_facts.hpp"
#include "../record/facts.hpp"
#include "../record/points.hpp"
#include "../wire.hpp"
#include "alone.hpp"
#include "exercises.hpp"
#include "jacobi.hpp"
#include "lineup.hpp"
#include "matrix.hpp"
#include "pair_agreement.hpp"

namespace volley {

namespace {

// The points of one message size: one for each available transport, skipped where it cannot be.
std::vector<Point> points_of_size(Lineup& lineup, const Plan& plan, std::uint64_t bytes, const std::string& skip_all) {
  std::vector<Point> points;
  for (auto& player : lineup.players()) {
    if (!player.reason.empty()) continue;
    Point point = lineup.point(player, bytes, plan.verify);
    if (!skip_all.empty()) point.skipped = skip_all;
    point.fresh = player.fresh;
    if (point.skipped.empty()) player.fresh = false;
    points.push_back(std::move(point));
  }
  return points;
}

// Why no more points are started, as the first rank sees it; empty while there is time.
std::string out_of_time(const Pair& pair, const Plan& plan, const Records& records) {
  const bool over = pair.leads() && budget_used(plan, records);
  return wire::broadcast_value(over, 0, pair.control.get()) ? budget_reason(plan) : "";
}

void sweep(const Pair& pair, const Plan& plan, Lineup& lineup, Records& records, Watchdog& watchdog) {
  const Exercise exercise = plan.benchmark == Benchmark::stream ? stream_exercise(plan.stream) : pingpong_exercise();
  PairAgreement agreement(pair);
  Sampler sampler(pair, agreement, plan, exercise, watchdog);
  if (!plan.fresh_buffers) lineup.open(plan.sizes_bytes);
  for (const auto bytes : plan.sizes_bytes) {
    if (plan.fresh_buffers) lineup.open({bytes});
    auto points = points_of_size(lineup, plan, bytes, out_of_time(pair, plan, records));
    sampler.measure(points);
    for (const auto& point : points) records.write_point(point_record(plan, pair, point));
    if (plan.fresh_buffers) lineup.close();
  }
  lineup.close();
}

}  // namespace

Exit run_plan(const Context& context, const Plan& plan, Records& records, Watchdog& watchdog) {
  records.write(run_record(context, plan, clock_read_s(), mpi_facts()));
  if (plan.benchmark == Benchmark::jacobi) return run_jacobi(context, plan, records, watchdog);
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
    return wire::broadcast_value(records.failed(), 0, context.world.get()) ? Exit::failed : Exit::good;
  }
  const auto pair = make_pair(context, 0, 1);
  if (!pair) return Exit::good;  // a rank that the plan has no work for
  watchdog.enter("finding out which transports can be used");
  Lineup lineup(context, *pair, plan);
  for (const auto& player : lineup.players()) {
    records.write(transport_record(*player.entry, player.reason, to_json(player.transport->facts())));
  }
  if (plan.benchmark != Benchmark::probe && !plan.sizes_bytes.empty()) sweep(*pair, plan, lineup, records, watchdog);
  const bool failed = wire::broadcast_value(records.failed(), 0, pair->control.get());
  return failed ? Exit::failed : Exit::good;
}

}  // namespace volley
