// Results of pairs, and the rows of the matrices that they fill; used on the first rank.
#pragma once

#include <map>
#include <vector>

#include "benchmark/benchmark.hpp"
#include "benchmark/rank_matrix/matrix_case.hpp"

namespace volley {

class MatrixWriter {
 public:
  MatrixWriter(const Run& run, const RankMatrixOptions& options, const std::vector<MatrixCase>& cases)
      : run_(run), options_(options), cases_(cases), known_(run.plan.transports.size()) {}

  // One more result of rank `first` will come before its row is complete.
  void expect(int first) { ++missing_[first]; }

  // Takes the result of a pair; writes the row's records, one a case and transport, once nothing is missing.
  void add(int first, int repeat, const Json& result);

 private:
  void write_transports();
  void write(int first, int repeat);

  const Run& run_;
  const RankMatrixOptions& options_;
  const std::vector<MatrixCase>& cases_;
  std::map<int, int> missing_;
  std::map<int, std::vector<Json>> cells_;  // of each open row, by case and transport
  std::vector<Json> known_;                 // the best that any pair said of each transport
  bool begun_ = false;                      // the records of the transports are written
};

}  // namespace volley
