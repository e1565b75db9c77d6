// Collects the results of pairs and writes the rows of the matrices. Used on the first rank.
#pragma once

#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "benchmark/benchmark.hpp"
#include "benchmark/transport_set.hpp"

namespace volley {

// How many pairs measure at the same time: one, one for each node, or as many as there can be.
enum class MatrixMode { isolated, nodes, loaded };
constexpr std::array matrix_modes{"isolated", "nodes", "loaded"};

struct RankMatrixOptions {
  MatrixMode mode = MatrixMode::isolated;
  std::vector<std::uint64_t> latency_sizes_bytes;    // of round trips
  std::vector<std::uint64_t> bandwidth_sizes_bytes;  // of windows
  Window window;
  std::vector<std::array<int, 2>> pairs;                // empty: all
  std::vector<std::vector<std::array<int, 2>>> rounds;  // of pairs that measure at once; empty: a round robin
  int repeats = 1;
  bool samples = false;  // cells keep every sample
};

// One workload at one message size. Each transport has a matrix for each case.
struct MatrixCase {
  Workload workload;
  std::uint64_t bytes;
};

inline double number_or_0(const Json& value) { return value.is_null() ? 0.0 : value.get<double>(); }

// The power of ten that gives the shortest time of a row four digits: they are off by 0.05 % at most.
inline double unit_of(double shortest_s) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "1e%d", static_cast<int>(std::floor(std::log10(shortest_s))) - 3);
  return std::strtod(text.data(), nullptr);  // the double that is nearest to the power, as readers have it
}

inline Json in_units(double time_s, double unit_s) {
  return time_s > 0 ? Json(std::max<std::int64_t>(1, std::llround(time_s / unit_s))) : Json(nullptr);
}

class MatrixWriter {
 public:
  // `results_of` says how many results complete the row of a rank.
  MatrixWriter(const Run& run, const RankMatrixOptions& options, const std::vector<MatrixCase>& cases,
               std::function<int(int first)> results_of)
      : run_(run),
        options_(options),
        cases_(cases),
        results_of_(std::move(results_of)),
        known_(run.plan.transports.size()) {}

  // Takes the result of a pair. Writes the row, a record for each case and transport, when it is complete.
  void add(int first, int repeat, const Json& result) {
    const Json& transports = result.at("transports");  // empty where the pair was skipped
    for (std::size_t i = 0; i < transports.size(); ++i) {
      if (known_[i].is_null() || transports[i].at("reason").get<std::string>().empty()) known_[i] = transports[i];
    }
    auto& rows = rows_[first];
    rows.resize(result.at("cells").size());
    for (std::size_t i = 0; i < rows.size(); ++i) take(rows[i], result.at("cells")[i], options_.samples);
    for (const auto& cell : result.at("cells")) run_.records.count(cell.at("status").get<std::string>());
    const auto [missing, is_new] = missing_.try_emplace(first, 0);
    if (is_new) missing->second = results_of_(first);
    if (--missing->second > 0) return;
    write_transports();
    write(first, repeat);
    rows_.erase(first);
    missing_.erase(first);
  }

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

  static void take(Row& row, const Json& cell, bool samples) {
    const int second = cell.at("rank").get<int>();
    const std::string status = cell.at("status").get<std::string>();
    if (status == "failed") {
      row.failed.push_back({{"rank", second}, {"reason", cell.at("reason")}, {"mismatch", cell.at("mismatch")}});
    } else if (status == "skipped") {
      row.skipped[cell.at("reason").get<std::string>()].push_back(second);
    }
    row.cells.push_back({second, number_or_0(cell.at("median_s")), number_or_0(cell.at("low_s")),
                         number_or_0(cell.at("high_s")), cell.at("samples").get<std::uint64_t>()});
    row.messages_timed += cell.at("messages_timed").get<std::uint64_t>();
    row.messages_verified += cell.at("messages_verified").get<std::uint64_t>();
    if (samples) row.kept[second] = cell;
  }

  // A transport is available if a pair can use it. Only the pairs before the end of the first row are known here.
  void write_transports() {
    for (std::size_t i = 0; !begun_ && i < known_.size(); ++i) {
      if (known_[i].is_null()) continue;
      const std::string reason = known_[i].at("reason").get<std::string>();
      run_.records.write(transport_record(*find_transport(run_.plan.transports[i]), reason, known_[i].at("facts")));
    }
    begun_ = true;
  }

  void write(int first, int repeat) {
    std::size_t number = 0;
    for (const auto& [workload, bytes] : cases_) {
      const std::optional<Window>& window = workload.window;
      for (const auto& transport : run_.plan.transports) {
        Json record = {{"record", "rank_matrix"},
                       {"version", record_version},
                       {"transport", transport},
                       {"mode", matrix_modes[static_cast<std::size_t>(options_.mode)]},
                       {"pattern", window ? "stream" : "pingpong"},
                       {"direction", window ? Json(name_of(window->direction)) : Json(nullptr)},
                       {"window", window ? Json(window->messages) : Json(nullptr)},
                       {"size_bytes", bytes},
                       {"rank", first},
                       {"repeat", repeat}};
        record.update(columns(rows_[first][number++]));
        run_.records.write(record);
      }
    }
  }

  // A list for each quantity, by rising second rank; the ranks themselves only where some are missing.
  [[nodiscard]] Json columns(Row& row) const {
    auto& cells = row.cells;
    std::sort(cells.begin(), cells.end(), [](const Cell& a, const Cell& b) { return a.second < b.second; });
    const bool whole = options_.rounds.empty() && cells.size() + 1 == static_cast<std::size_t>(run_.context->size);
    double shortest_s = std::numeric_limits<double>::infinity();
    for (const auto& cell : cells) {
      if (cell.median_s > 0) shortest_s = std::min(shortest_s, cell.median_s);
    }
    const double unit_s = std::isinf(shortest_s) ? 1 : unit_of(shortest_s);
    Json lists = {{"ranks", Json::array()}, {"unit_s", unit_s},       {"medians", Json::array()},
                  {"lows", Json::array()},  {"highs", Json::array()}, {"samples", Json::array()}};
    for (const auto& cell : cells) {
      if (!whole) lists["ranks"].push_back(cell.second);
      lists["medians"].push_back(in_units(cell.median_s, unit_s));
      lists["lows"].push_back(in_units(cell.low_s, unit_s));
      if (options_.repeats == 1) lists["highs"].push_back(in_units(cell.high_s, unit_s));
      lists["samples"].push_back(cell.samples);
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

  const Run& run_;
  const RankMatrixOptions& options_;
  const std::vector<MatrixCase>& cases_;
  const std::function<int(int first)> results_of_;
  std::map<int, int> missing_;            // results, of incomplete rows by first rank
  std::map<int, std::vector<Row>> rows_;  // incomplete ones by first rank, each by case and transport
  std::vector<Json> known_;  // what a pair reported of each transport; of one that can use it if there is one
  bool begun_ = false;       // the records of the transports are written
};

}  // namespace volley
