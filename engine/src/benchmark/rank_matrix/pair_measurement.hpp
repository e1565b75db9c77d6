// Measures everything that the plan asks for between two ranks of a matrix.
#pragma once

#include <vector>

#include "benchmark/benchmark.hpp"
#include "benchmark/rank_matrix/matrix_case.hpp"
#include "benchmark/transport_set.hpp"
#include "group/backoff_wait.hpp"
#include "group/mpi_control.hpp"

namespace volley {

// The result of a pair that is not measured. A result is JSON, because it is sent to the first rank. It has
// `transports`, those that the pair can use, and `cells`: a cell for each transport of the first case, then of the next
// case, and so on.
[[nodiscard]] Json skipped_result(std::size_t cells, int second, const std::string& reason);

class PairMeasurement {
 public:
  // Collective over the two ranks only.
  PairMeasurement(const Run& run, const std::vector<MatrixCase>& cases, bool samples, const std::array<int, 2>& ranks);

  // Measures every case while no other pair measures. The result is complete on the first rank. Collective over the
  // two.
  [[nodiscard]] Json isolated();

  // Measures every case while all other pairs of the round do the same. All pairs begin a transport of a case together;
  // a pair that has finished continues without recording until all have finished. Collective over the world: a rank
  // without a partner calls `idle_round`.
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

// Takes part in a round of `PairMeasurement::loaded` with so many cells, on a rank without a partner.
void idle_round(std::size_t cells, const BackoffWait& backoff);

}  // namespace volley
