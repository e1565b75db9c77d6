// Two ranks of a matrix that meet: everything that the plan wants to know of the pair.
#pragma once

#include <vector>

#include "benchmark/transport_set.hpp"
#include "group/backoff_wait.hpp"
#include "group/mpi_control.hpp"
#include "measure/series.hpp"
#include "measure/watchdog.hpp"
#include "measure/workload.hpp"
#include "record/json.hpp"

namespace volley {

// One workload at one message size: a matrix of its own for each transport.
struct MatrixCase {
  Benchmark benchmark;
  Workload workload;
  std::uint64_t bytes;
};

// The cases of a plan, ping-pongs first.
[[nodiscard]] std::vector<MatrixCase> cases_of(const Plan& plan);

// A result has `transports`, what the pair can use, and `cells`: those of the first matrix_case, one a transport, then
// those of the next. All of it is plain JSON, because it travels to the first rank.
[[nodiscard]] Json skipped_result(const Plan& plan, const std::vector<MatrixCase>& cases, int second,
                                  const std::string& reason);

class PairMeasurement {
 public:
  // Collective over the two ranks; nobody else need know.
  PairMeasurement(const Context& context, const Plan& plan, const std::vector<MatrixCase>& cases, int first, int second,
                  Watchdog& watchdog);

  // Measures every matrix_case while nobody else does; complete on the first of the two. Collective over the two.
  [[nodiscard]] Json isolated();

  // Measures every matrix_case while all other pairs of the round do: they begin a transport of a matrix_case together,
  // and whoever has done goes on, unrecorded, until all have. Collective over the world, with `idle_round` for who has
  // no opponent.
  [[nodiscard]] Json loaded(const Context& context, const BackoffWait& backoff);

 private:
  [[nodiscard]] std::vector<Series> series_of(const MatrixCase& matrix_case);
  void keep_busy(const Workload& workload, Series& series, MPI_Request& all_done, const BackoffWait& backoff);
  [[nodiscard]] Json finished(const Json& cells);

  const Plan& plan_;
  const std::vector<MatrixCase>& cases_;
  Watchdog& watchdog_;
  RankGroup pair_;
  MpiControl control_;
  TransportSet transports_;
};

// The part of a rank that rests in a round of `PairMeasurement::loaded`.
void idle_round(const Plan& plan, const std::vector<MatrixCase>& cases, const BackoffWait& backoff);

}  // namespace volley
