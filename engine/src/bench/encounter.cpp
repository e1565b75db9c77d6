#include "encounter.hpp"

#include "../measure/sampler.hpp"
#include "../record/facts.hpp"
#include "../record/points.hpp"
#include "../wire.hpp"
#include "exercises.hpp"

namespace volley {

std::vector<Sheet> sheets_of(const Plan& plan) {
  std::vector<Sheet> sheets;
  for (const auto bytes : plan.matrix.latency_sizes_bytes) {
    sheets.push_back({Benchmark::pingpong, pingpong_exercise(), bytes});
  }
  for (const auto bytes : plan.matrix.bandwidth_sizes_bytes) {
    sheets.push_back({Benchmark::stream, stream_exercise(plan.stream), bytes});
  }
  return sheets;
}

Json skipped_result(const Plan& plan, const std::vector<Sheet>& sheets, int second, const std::string& reason) {
  Json cells = Json::array();
  Point point;
  point.skipped = reason;
  for (std::size_t i = 0; i < sheets.size() * plan.transports.size(); ++i) {
    cells.push_back(matrix_cell(point, second, false));
  }
  return {{"transports", Json::array()}, {"cells", cells}};
}

Encounter::Encounter(const Context& context, const Plan& plan, const std::vector<Sheet>& sheets, int first, int second,
                     Watchdog& watchdog)
    : plan_(plan),
      sheets_(sheets),
      watchdog_(watchdog),
      pair_(make_pair_alone(context, first, second)),
      agreement_(pair_),
      lineup_(context, pair_, plan) {
  std::vector<std::uint64_t> sizes;
  for (const auto& sheet : sheets) sizes.push_back(sheet.bytes);
  lineup_.open(sizes);
}

std::vector<Point> Encounter::points_of(const Sheet& sheet) {
  std::vector<Point> points;
  for (const auto& player : lineup_.players()) points.push_back(lineup_.point(player, sheet.bytes, plan_.verify));
  return points;
}

Json Encounter::isolated() {
  Json cells = Json::array();
  for (const auto& sheet : sheets_) {
    auto points = points_of(sheet);
    Sampler(pair_, agreement_, plan_, sheet.exercise, watchdog_).measure(points);
    for (const auto& point : points) cells.push_back(matrix_cell(point, pair_.ranks[1], plan_.matrix.samples));
  }
  return finished(cells);
}

Json Encounter::loaded(const Context& context, const Patience& patience) {
  Json cells = Json::array();
  for (const auto& sheet : sheets_) {
    for (auto& point : points_of(sheet)) {  // one transport at a time: it is loaded with its own like
      std::vector<Point> alone{std::move(point)};
      patience.barrier();
      Sampler(pair_, agreement_, plan_, sheet.exercise, watchdog_).measure(alone);
      MPI_Request all_done = MPI_REQUEST_NULL;
      VOLLEY_MPI(MPI_Ibarrier(context.world.get(), &all_done));
      keep_busy(sheet.exercise, alone[0], all_done, patience);
      cells.push_back(matrix_cell(alone[0], pair_.ranks[1], plan_.matrix.samples));
    }
  }
  return finished(cells);
}

// The first of the two looks whether all have done, and tells the second before each batch.
void Encounter::keep_busy(const Exercise& exercise, Point& point, MPI_Request& all_done, const Patience& patience) {
  while (point.count > 0) {
    int done = 0;
    if (pair_.leads()) VOLLEY_MPI(MPI_Test(&all_done, &done, MPI_STATUS_IGNORE));
    if (wire::broadcast_value(done, 0, pair_.control.get()) != 0) break;
    watchdog_.progress(10 * point.count_s * static_cast<double>(point.count));
    exercise.run(*point.transport, point.view, point.count);
  }
  patience.wait(all_done);
}

Json Encounter::finished(const Json& cells) {
  Json transports = Json::array();
  for (const auto& player : lineup_.players()) {
    transports.push_back({{"reason", player.reason}, {"facts", to_json(player.transport->facts())}});
  }
  lineup_.close();
  return {{"transports", transports}, {"cells", cells}};
}

void sit_out(const Plan& plan, const std::vector<Sheet>& sheets, const Patience& patience) {
  for (std::size_t i = 0; i < sheets.size() * plan.transports.size(); ++i) {
    patience.barrier();  // they begin
    patience.barrier();  // all have done
  }
}

}  // namespace volley
