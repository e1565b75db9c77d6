#include "run.hpp"

#include <sstream>

#include "../measure/sample.hpp"
#include "../measure/sampler.hpp"
#include "../measure/stopping.hpp"
#include "../record/facts.hpp"
#include "../wire.hpp"
#include "alone.hpp"
#include "exercises.hpp"
#include "jacobi.hpp"
#include "lineup.hpp"
#include "matrix.hpp"
#include "node.hpp"

namespace volley {

namespace {

double clock_read_s() {
  std::vector<double> readings;
  for (int i = 0; i < 101; ++i) {
    readings.push_back(timed([](std::uint64_t) {}, 0));
  }
  return median(readings);
}

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
  Sampler sampler(pair, plan, exercise, watchdog);
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

void Records::write(const Json& record) {
  if (output_ != nullptr) output_->line(line_of(record));
}

void Records::write_point(const Json& record) {
  count(record.at("status"));
  write(record);
}

void Records::count(const std::string& status) {
  (status == "ok" ? ok_ : status == "failed" ? failed_ : skipped_) += 1;
}

void Records::end(const std::string& trouble) {
  write({{"record", "end"},
         {"version", record_version},
         {"status", failed_ > 0 || !trouble.empty() ? "failed" : "complete"},
         {"reason", trouble.empty() ? Json(nullptr) : Json(trouble)},
         {"points_ok", ok_},
         {"points_failed", failed_},
         {"points_skipped", skipped_},
         {"elapsed_s", elapsed_s()}});
}

void Records::end_in_trouble(const std::string& trouble) noexcept {
  try {
    end(trouble);
  } catch (const std::exception&) {  // the reader has gone or the disk is full: the file is incomplete, and says so
  }
}

bool budget_used(const Plan& plan, const Records& records) {
  return plan.budget_s && records.elapsed_s() > *plan.budget_s;
}

std::string budget_reason(const Plan& plan) {
  std::ostringstream reason;
  reason << "the time budget of " << plan.budget_s.value_or(0) << " s was used up";
  return reason.str();
}

Exit run_plan(const Context& context, const Plan& plan, Records& records, Watchdog& watchdog) {
  if (plan.benchmark == Benchmark::node) check_node(context, plan);
  records.write(run_record(context, plan, clock_read_s()));
  if (plan.benchmark == Benchmark::node) return run_node(context, plan, records, watchdog);
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
