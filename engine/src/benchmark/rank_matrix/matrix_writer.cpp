#include "benchmark/rank_matrix/matrix_writer.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

#include "benchmark/transport_set.hpp"

namespace volley {

namespace {

double number_or_0(const Json& value) { return value.is_null() ? 0.0 : value.get<double>(); }

// Four significant digits of a time are off by 0.05 % at most; two of how long a visit took are enough.
Json rounded(double value, int digits) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.*g", digits, value);
  return std::strtod(text.data(), nullptr);
}

Json time_or_null(double value) { return value > 0 ? rounded(value, 4) : Json(nullptr); }

}  // namespace

void MatrixWriter::add(int first, int repeat, const Json& result) {
  const Json& transports = result.at("transports");  // empty where the pair was skipped
  for (std::size_t i = 0; i < transports.size(); ++i) {
    if (known_[i].is_null() || transports[i].at("reason").get<std::string>().empty()) known_[i] = transports[i];
  }
  auto& rows = rows_[first];
  rows.resize(result.at("cells").size());
  for (std::size_t i = 0; i < rows.size(); ++i) take(rows[i], result.at("cells")[i], options_.samples);
  for (const auto& cell : result.at("cells")) run_.records.count(cell.at("status"));
  if (--missing_[first] > 0) return;
  write_transports();
  write(first, repeat);
  rows_.erase(first);
}

void MatrixWriter::take(Row& row, const Json& cell, bool samples) {
  const int second = cell.at("rank");
  const std::string status = cell.at("status");
  if (status == "failed") {
    row.failed.push_back({{"rank", second}, {"reason", cell.at("reason")}, {"mismatch", cell.at("mismatch")}});
  } else if (status == "skipped") {
    row.skipped[cell.at("reason")].push_back(second);
  }
  row.cells.push_back({second, number_or_0(cell.at("median_s")), number_or_0(cell.at("low_s")),
                       number_or_0(cell.at("high_s")), cell.at("elapsed_s"), cell.at("samples"),
                       cell.at("count_per_sample")});
  row.messages_timed += cell.at("messages_timed").get<std::uint64_t>();
  row.messages_verified += cell.at("messages_verified").get<std::uint64_t>();
  if (samples) row.kept[second] = cell;
}

// A transport is available if a pair can use it. Only the pairs before the end of the first row are known here.
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
      Json record = {{"record", "rank_matrix"},
                     {"version", record_version},
                     {"transport", transport},
                     {"mode", options_.loaded ? "loaded" : "isolated"},
                     {"pattern", windows ? "stream" : "pingpong"},
                     {"direction", windows ? Json(name_of(options_.window.direction)) : Json(nullptr)},
                     {"window", windows ? Json(options_.window.messages) : Json(nullptr)},
                     {"size_bytes", bytes},
                     {"rank", first},
                     {"repeat", repeat}};
      record.update(columns(rows_[first][number++]));
      run_.records.write(record);
    }
  }
}

// A list for each quantity, by rising second rank; the ranks themselves only where some are missing.
Json MatrixWriter::columns(Row& row) const {
  auto& cells = row.cells;
  std::sort(cells.begin(), cells.end(), [](const Cell& a, const Cell& b) { return a.second < b.second; });
  const bool whole = cells.size() + 1 == static_cast<std::size_t>(run_.context->size);
  Json lists = {{"ranks", Json::array()},    {"median_s", Json::array()}, {"low_s", Json::array()},
                {"high_s", Json::array()},   {"samples", Json::array()},  {"count_per_sample", Json::array()},
                {"elapsed_s", Json::array()}};
  for (const auto& cell : cells) {
    if (!whole) lists["ranks"].push_back(cell.second);
    lists["median_s"].push_back(time_or_null(cell.median_s));
    lists["low_s"].push_back(time_or_null(cell.low_s));
    lists["high_s"].push_back(time_or_null(cell.high_s));
    lists["samples"].push_back(cell.samples);
    lists["count_per_sample"].push_back(cell.count_per_sample);
    lists["elapsed_s"].push_back(rounded(cell.elapsed_s, 2));
  }
  lists["messages_timed"] = row.messages_timed;
  lists["messages_verified"] = row.messages_verified;
  lists["failed"] = row.failed;
  lists["skipped"] = Json::array();
  for (auto& [reason, ranks] : row.skipped) {
    std::sort(ranks.begin(), ranks.end());
    lists["skipped"].push_back({{"ranks", ranks}, {"reason", reason}});
  }
  for (const char* name : {"samples_s", "visits", "work_s"}) {
    lists[name] = Json::array();
    for (const auto& [second, cell] : row.kept) lists[name].push_back(cell.at(name));
  }
  return lists;
}

}  // namespace volley
