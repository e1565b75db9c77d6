#include "rows.hpp"

#include <algorithm>

#include "../record/facts.hpp"
#include "../record/points.hpp"

namespace volley {

Rows::Rows(const Plan& plan, const std::vector<Sheet>& sheets, Records& records)
    : plan_(plan), sheets_(sheets), records_(records), known_(plan.transports.size()) {}

void Rows::add(int first, int repeat, const Json& result) {
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
void Rows::write_transports() {
  for (std::size_t i = 0; !begun_ && i < known_.size(); ++i) {
    if (known_[i].is_null()) continue;
    const std::string reason = known_[i].at("reason");
    records_.write(transport_record(*find_transport(plan_.transports[i]), reason, known_[i].at("facts")));
  }
  begun_ = true;
}

void Rows::write(int first, int repeat) {
  std::size_t number = 0;
  for (const auto& sheet : sheets_) {
    for (const auto& transport : plan_.transports) {
      Json cells = std::move(cells_[first][number++]);
      const auto rank_of = [](const Json& cell) { return cell.at("rank").get<int>(); };
      std::sort(cells.begin(), cells.end(), [&](const Json& a, const Json& b) { return rank_of(a) < rank_of(b); });
      for (const auto& cell : cells) records_.count(cell.at("status"));
      const bool streams = sheet.benchmark == Benchmark::stream;
      records_.write({{"record", "matrix"},
                      {"version", record_version},
                      {"transport", transport},
                      {"mode", plan_.matrix.loaded ? "loaded" : "isolated"},
                      {"exercise", streams ? "stream" : "pingpong"},
                      {"direction", streams ? Json(name_of(plan_.stream.direction)) : Json(nullptr)},
                      {"window", streams ? Json(plan_.stream.window) : Json(nullptr)},
                      {"size_bytes", sheet.bytes},
                      {"rank", first},
                      {"repeat", repeat},
                      {"cells", cells}});
    }
  }
}

}  // namespace volley
