// Collects the results of pairs and writes the rows of the matrices. Used on the first rank.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "benchmark/benchmark.hpp"
#include "benchmark/rank_matrix/matrix_case.hpp"

namespace volley {

class MatrixWriter {
 public:
  MatrixWriter(const Run& run, const RankMatrixOptions& options, const std::vector<MatrixCase>& cases)
      : run_(run), options_(options), cases_(cases), known_(run.plan.transports.size()) {}

  // The row of rank `first` is complete only after so many more results.
  void expect(int first, int results) { missing_[first] += results; }

  // Takes the result of a pair. Writes the row, a record for each case and transport, when it is complete.
  void add(int first, int repeat, const Json& result);

 private:
  // A pair as numbers: the cells of a thousand ranks as JSON would take gigabytes.
  struct Cell {
    int second;
    double median_s, low_s, high_s;  // 0: there is none
    std::uint64_t samples;
  };

  // One row of one case and transport.
  struct Row {
    std::vector<Cell> cells;
    std::uint64_t messages_timed = 0;
    std::uint64_t messages_verified = 0;
    Json failed = Json::array();
    std::map<std::string, std::vector<int>> skipped;  // the second ranks, by reason
    std::map<int, Json> kept;                         // whole cells by second rank, where samples are kept
  };

  static void take(Row& row, const Json& cell, bool samples);
  void write_transports();
  void write(int first, int repeat);
  [[nodiscard]] Json columns(Row& row) const;

  const Run& run_;
  const RankMatrixOptions& options_;
  const std::vector<MatrixCase>& cases_;
  std::map<int, int> missing_;
  std::map<int, std::vector<Row>> rows_;  // incomplete ones by first rank, each by case and transport
  std::vector<Json> known_;  // what a pair reported of each transport; of one that can use it if there is one
  bool begun_ = false;       // the records of the transports are written
};

}  // namespace volley
