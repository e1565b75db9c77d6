// Two ranks of a matrix that meet: everything that the plan asks of the pair.
#pragma once

#include <vector>

#include "benchmark/benchmark.hpp"
#include "benchmark/rank_matrix/matrix_case.hpp"
#include "benchmark/transport_set.hpp"
#include "group/backoff_wait.hpp"
#include "group/mpi_control.hpp"

namespace volley {

// A result has `transports`, what the pair can use, and `cells`: those of the first case, one a transport, then those
// of the next. All of it is plain JSON, because it travels to the first rank.
[[nodiscard]] Json skipped_result(std::size_t cells, int second, const std::string& reason);

class PairMeasurement {
 public:
  // Collective over the two ranks; nobody else need know.
  PairMeasurement(const Run& run, const std::vector<MatrixCase>& cases, bool samples, const std::array<int, 2>& ranks);

  // Measures every case while nobody else does; complete on the first of the two. Collective over the two.
  [[nodiscard]] Json isolated();

  // Measures every case while all other pairs of the round do: they begin a transport of a case together, and whoever
  // has done goes on, unrecorded, until all have. Collective over the world, with `idle_round` for who has no partner.
  [[nodiscard]] Json loaded(const BackoffWait& backoff);

 private:
  [[nodiscard]] std::vector<Series> series_of(const MatrixCase& matrix_case);
  [[nodiscard]] Json cell(const Series& series) const;
  void keep_busy(const Workload& workload, Series& series, MPI_Request& all_done, const BackoffWait& backoff);
  [[nodiscard]] Json finished(const Json& cells);

  const Run& run_;
  const std::vector<MatrixCase>& cases_;
  bool samples_;
  RankGroup pair_;
  MpiControl control_;
  TransportSet transports_;
};

// The part of a rank that rests in a round of `PairMeasurement::loaded`, of so many cells.
void idle_round(std::size_t cells, const BackoffWait& backoff);

}  // namespace volley
