#include "benchmark/rank_matrix/matrix_writer.hpp"

#include <algorithm>

#include "benchmark/series_records.hpp"
#include "benchmark/transport_set.hpp"
#include "record/records.hpp"

namespace volley {

MatrixWriter::MatrixWriter(const Plan& plan, const std::vector<MatrixCase>& cases, Records& records)
    : plan_(plan), cases_(cases), records_(records), known_(plan.transports.size()) {}

void MatrixWriter::add(int first, int repeat, const Json& result) {
  const Json& transports = result.at("transports");  // empty where the pair was skipped
  for (std::size_t i = 0; i < transports.size(); ++i) {
    if (known_[i].is_null() || transports[i].at("reason").get<std::string>().empty()) known_[i] = transports[i];
  }
  auto& row = cells_[first];
  row.resize(result.at("cells").size(), Json::array());
  for (std::size_t i = 0; i < row.size(); ++i) row[i].push_back(result.at("cells")[i]);
  if (--missing_[first] > 0) return;
  write_transports();
  write(first, repeat);
  cells_.erase(first);
}

// A transport counts as available where a pair could use it, as far as the pairs before the first row tell.
void MatrixWriter::write_transports() {
  for (std::size_t i = 0; !begun_ && i < known_.size(); ++i) {
    if (known_[i].is_null()) continue;
    const std::string reason = known_[i].at("reason");
    records_.write(transport_record(*find_transport(plan_.transports[i]), reason, known_[i].at("facts")));
  }
  begun_ = true;
}

void MatrixWriter::write(int first, int repeat) {
  std::size_t number = 0;
  for (const auto& matrix_case : cases_) {
    for (const auto& transport : plan_.transports) {
      Json cells = std::move(cells_[first][number++]);
      const auto rank_of = [](const Json& cell) { return cell.at("rank").get<int>(); };
      std::sort(cells.begin(), cells.end(), [&](const Json& a, const Json& b) { return rank_of(a) < rank_of(b); });
      for (const auto& cell : cells) records_.count(cell.at("status"));
      const bool streams = matrix_case.benchmark == Benchmark::stream;
      records_.write({{"record", "matrix"},
                      {"version", record_version},
                      {"transport", transport},
                      {"mode", plan_.matrix.loaded ? "loaded" : "isolated"},
                      {"workload", streams ? "stream" : "pingpong"},
                      {"direction", streams ? Json(name_of(plan_.window.direction)) : Json(nullptr)},
                      {"window", streams ? Json(plan_.window.messages) : Json(nullptr)},
                      {"size_bytes", matrix_case.bytes},
                      {"rank", first},
                      {"repeat", repeat},
                      {"cells", cells}});
    }
  }
}

}  // namespace volley
