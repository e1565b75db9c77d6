#include "benchmark/rank_matrix/pair_measurement.hpp"

#include "benchmark/series_record.hpp"
#include "measure/sampler.hpp"
#include "mpi/collectives.hpp"

namespace volley {

namespace {

Json rank_cell(const Series& series, int second, bool samples) {
  Json cell = {{"rank", second}};
  cell.update(matrix_cell(series, samples));
  cell["mismatch"] = series.mismatch ? to_json(*series.mismatch) : Json(nullptr);
  return cell;
}

}  // namespace

Json skipped_result(std::size_t cells, int second, const std::string& reason) {
  Series series;
  series.skipped = reason;
  return {{"transports", Json::array()}, {"cells", std::vector<Json>(cells, rank_cell(series, second, false))}};
}

PairMeasurement::PairMeasurement(const Run& run, const std::vector<MatrixCase>& cases, bool samples,
                                 const std::array<int, 2>& ranks)
    : run_(run),
      cases_(cases),
      samples_(samples),
      pair_(*make_group(*run.context, {ranks[0], ranks[1]})),
      control_(pair_),
      transports_(*run.context, pair_, run.plan, run.watchdog) {
  std::vector<std::uint64_t> sizes;
  for (const auto& matrix_case : cases) sizes.push_back(matrix_case.bytes);
  transports_.open(sizes);
}

std::vector<Series> PairMeasurement::series_of(const MatrixCase& matrix_case) {
  std::vector<Series> all;
  for (const auto& candidate : transports_.candidates()) {
    all.push_back(transports_.series(candidate, matrix_case.bytes, run_.plan.verify, matrix_case.workload.window));
  }
  return all;
}

Json PairMeasurement::cell(const Series& series) const { return rank_cell(series, pair_.rank(1), samples_); }

Json PairMeasurement::isolated() {
  Json cells = Json::array();
  for (const auto& matrix_case : cases_) {
    auto all = series_of(matrix_case);
    Sampler(control_, run_.plan.sampling, matrix_case.workload, run_.watchdog).measure(all);
    for (const auto& series : all) cells.push_back(cell(series));
  }
  return finished(cells);
}

Json PairMeasurement::loaded(const BackoffWait& backoff) {
  Json cells = Json::array();
  for (const auto& matrix_case : cases_) {
    for (auto& series : series_of(matrix_case)) {  // one transport at a time, the same on all pairs
      std::vector<Series> alone{std::move(series)};
      backoff.start_together();
      Sampler(control_, run_.plan.sampling, matrix_case.workload, run_.watchdog).measure(alone);
      MPI_Request all_done = MPI_REQUEST_NULL;
      VOLLEY_MPI(MPI_Ibarrier(run_.context->world.get(), &all_done));
      keep_busy(matrix_case.workload, alone[0], all_done, backoff);
      cells.push_back(cell(alone[0]));
    }
  }
  return finished(cells);
}

// Exchanges further messages until all pairs have finished. Before each batch the first rank tells the second one
// whether to continue.
void PairMeasurement::keep_busy(const Workload& workload, Series& series, MPI_Request& all_done,
                                const BackoffWait& backoff) {
  while (series.count > 0) {
    int done = 0;
    if (pair_.leads()) VOLLEY_MPI(MPI_Test(&all_done, &done, MPI_STATUS_IGNORE));
    if (mpi::broadcast_value(done, 0, pair_.control.get()) != 0) break;
    run_.watchdog.progress(10 * series.count_s * static_cast<double>(series.count));
    workload.run(*series.driver, series.view, series.count, workload.messages[0]);
  }
  backoff.wait(all_done);
}

Json PairMeasurement::finished(const Json& cells) {
  Json transports = Json::array();
  for (const auto& candidate : transports_.candidates()) {
    transports.push_back({{"reason", candidate.reason}, {"facts", candidate.facts()}});
  }
  transports_.close();
  return {{"transports", transports}, {"cells", cells}};
}

void idle_round(std::size_t cells, const BackoffWait& backoff) {
  for (std::size_t i = 0; i < cells; ++i) {
    backoff.start_together();  // the pairs begin
    backoff.barrier();         // all pairs have finished
  }
}

}  // namespace volley
