// Results of pairs, and the rows of the matrices that they fill; used on the first rank.
#pragma once

#include <map>
#include <vector>

#include "benchmark/rank_matrix/pair_measurement.hpp"
#include "benchmark/run.hpp"

namespace volley {

class MatrixWriter {
 public:
  MatrixWriter(const Plan& plan, const std::vector<MatrixCase>& cases, Records& records);

  // One more result of rank `first` will come before its row is complete.
  void expect(int first) { ++missing_[first]; }

  // Takes the result of a pair; writes the row's records, one a matrix_case and transport, once nothing is missing.
  void add(int first, int repeat, const Json& result);

 private:
  void write_transports();
  void write(int first, int repeat);

  const Plan& plan_;
  const std::vector<MatrixCase>& cases_;
  Records& records_;
  std::map<int, int> missing_;
  std::map<int, std::vector<Json>> cells_;  // of each open row, by matrix_case and transport
  std::vector<Json> known_;                 // the best that any pair said of each transport
  bool begun_ = false;                      // the records of the transports are written
};

}  // namespace volley
