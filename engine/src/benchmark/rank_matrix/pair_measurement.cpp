#include "benchmark/rank_matrix/pair_measurement.hpp"

#include "benchmark/series_records.hpp"
#include "benchmark/workloads.hpp"
#include "group/facts.hpp"
#include "measure/sampler.hpp"
#include "mpi/text.hpp"

namespace volley {

std::vector<MatrixCase> cases_of(const Plan& plan) {
  std::vector<MatrixCase> cases;
  for (const auto bytes : plan.matrix.latency_sizes_bytes) {
    cases.push_back({Benchmark::pingpong, pingpong_workload(), bytes});
  }
  for (const auto bytes : plan.matrix.bandwidth_sizes_bytes) {
    cases.push_back({Benchmark::stream, stream_workload(plan.window), bytes});
  }
  return cases;
}

Json skipped_result(const Plan& plan, const std::vector<MatrixCase>& cases, int second, const std::string& reason) {
  Json cells = Json::array();
  Series series;
  series.skipped = reason;
  for (std::size_t i = 0; i < cases.size() * plan.transports.size(); ++i) {
    cells.push_back(matrix_cell(series, second, false));
  }
  return {{"transports", Json::array()}, {"cells", cells}};
}

PairMeasurement::PairMeasurement(const Context& context, const Plan& plan, const std::vector<MatrixCase>& cases,
                                 int first, int second, Watchdog& watchdog)
    : plan_(plan),
      cases_(cases),
      watchdog_(watchdog),
      pair_(make_group_within(context, {first, second})),
      control_(pair_),
      transports_(context, pair_, plan) {
  std::vector<std::uint64_t> sizes;
  for (const auto& matrix_case : cases) sizes.push_back(matrix_case.bytes);
  transports_.open(sizes);
}

std::vector<Series> PairMeasurement::series_of(const MatrixCase& matrix_case) {
  std::vector<Series> all;
  for (const auto& candidate : transports_.candidates())
    all.push_back(transports_.series(candidate, matrix_case.bytes, plan_.verify));
  return all;
}

Json PairMeasurement::isolated() {
  Json cells = Json::array();
  for (const auto& matrix_case : cases_) {
    auto all = series_of(matrix_case);
    Sampler(control_, plan_.sampling, matrix_case.workload, watchdog_).measure(all);
    for (const auto& series : all) cells.push_back(matrix_cell(series, pair_.ranks[1], plan_.matrix.samples));
  }
  return finished(cells);
}

Json PairMeasurement::loaded(const Context& context, const BackoffWait& backoff) {
  Json cells = Json::array();
  for (const auto& matrix_case : cases_) {
    for (auto& series : series_of(matrix_case)) {  // one transport at a time: it is loaded with its own like
      std::vector<Series> alone{std::move(series)};
      backoff.barrier();
      Sampler(control_, plan_.sampling, matrix_case.workload, watchdog_).measure(alone);
      MPI_Request all_done = MPI_REQUEST_NULL;
      VOLLEY_MPI(MPI_Ibarrier(context.world.get(), &all_done));
      keep_busy(matrix_case.workload, alone[0], all_done, backoff);
      cells.push_back(matrix_cell(alone[0], pair_.ranks[1], plan_.matrix.samples));
    }
  }
  return finished(cells);
}

// The first of the two looks whether all have done, and tells the second before each batch.
void PairMeasurement::keep_busy(const Workload& workload, Series& series, MPI_Request& all_done,
                                const BackoffWait& backoff) {
  while (series.count > 0) {
    int done = 0;
    if (pair_.leads()) VOLLEY_MPI(MPI_Test(&all_done, &done, MPI_STATUS_IGNORE));
    if (mpi::broadcast_value(done, 0, pair_.control.get()) != 0) break;
    watchdog_.progress(10 * series.count_s * static_cast<double>(series.count));
    workload.run(*series.driver, series.view, series.count);
  }
  backoff.wait(all_done);
}

Json PairMeasurement::finished(const Json& cells) {
  Json transports = Json::array();
  for (const auto& candidate : transports_.candidates()) {
    transports.push_back({{"reason", candidate.reason}, {"facts", to_json(candidate.transport->facts())}});
  }
  transports_.close();
  return {{"transports", transports}, {"cells", cells}};
}

void idle_round(const Plan& plan, const std::vector<MatrixCase>& cases, const BackoffWait& backoff) {
  for (std::size_t i = 0; i < cases.size() * plan.transports.size(); ++i) {
    backoff.barrier();  // they begin
    backoff.barrier();  // all have done
  }
}

}  // namespace volley
