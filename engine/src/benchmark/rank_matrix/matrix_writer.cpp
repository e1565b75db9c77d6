#include "benchmark/rank_matrix/matrix_writer.hpp"

#include <algorithm>

#include "benchmark/series_record.hpp"
#include "benchmark/transport_set.hpp"

namespace volley {

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
    run_.records.write(transport_record(*find_transport(run_.plan.transports[i]), reason, known_[i].at("facts")));
  }
  begun_ = true;
}

void MatrixWriter::write(int first, int repeat) {
  std::size_t number = 0;
  for (const auto& [workload, windows, bytes] : cases_) {
    for (const auto& transport : run_.plan.transports) {
      Json cells = std::move(cells_[first][number++]);
      const auto rank_of = [](const Json& cell) { return cell.at("rank").get<int>(); };
      std::sort(cells.begin(), cells.end(), [&](const Json& a, const Json& b) { return rank_of(a) < rank_of(b); });
      write_row(run_.records,
                {{"record", "rank_matrix"},
                 {"version", record_version},
                 {"transport", transport},
                 {"mode", options_.loaded ? "loaded" : "isolated"},
                 {"pattern", windows ? "stream" : "pingpong"},
                 {"direction", windows ? Json(name_of(options_.window.direction)) : Json(nullptr)},
                 {"window", windows ? Json(options_.window.messages) : Json(nullptr)},
                 {"size_bytes", bytes},
                 {"rank", first},
                 {"repeat", repeat}},
                cells);
    }
  }
}

}  // namespace volley
