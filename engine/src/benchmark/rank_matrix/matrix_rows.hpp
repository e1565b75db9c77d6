// Collects the results of pairs, and makes the lines of the rows of the matrices from them.
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

// Complete rows: a line for each, and the number of their cells by status.
struct MatrixLines {
  static constexpr std::array statuses{"ok", "failed", "skipped"};
  using Counts = std::array<int, statuses.size()>;
  std::string text;
  Counts counts{};
};

class MatrixRows {
 public:
  // `results_of` says how many results complete the row of a rank; `whole` that these are those of all other ranks.
  MatrixRows(const Run& run, const RankMatrixOptions& options, const std::vector<MatrixCase>& cases,
             std::function<int(int first)> results_of, bool whole)
      : run_(run),
        options_(options),
        cases_(cases),
        results_of_(std::move(results_of)),
        whole_(whole),
        known_(run.plan.transports.size()) {}

  // Takes the result of a pair.
  void add(int first, int repeat, const Json& result) {
    learn(result.at("transports"));
    auto& rows = rows_[first];
    rows.resize(result.at("cells").size());
    for (std::size_t i = 0; i < rows.size(); ++i) take(rows[i], result.at("cells")[i], options_.samples);
    for (const auto& cell : result.at("cells")) {
      const auto status = std::ranges::find(MatrixLines::statuses, cell.at("status").get<std::string>());
      ++complete_.counts[static_cast<std::size_t>(status - MatrixLines::statuses.begin())];
    }
    const auto [missing, is_new] = missing_.try_emplace(first, 0);
    if (is_new) missing->second = results_of_(first);
    if (--missing->second > 0) return;
    add_lines(first, repeat);
    rows_.erase(first);
    missing_.erase(first);
  }

  // The rows, a record for each case and transport, that became complete since the last call.
  [[nodiscard]] MatrixLines take() { return std::exchange(complete_, {}); }

  // Takes what a pair, or another rank, knows of the transports; nothing where the pair was skipped.
  void learn(const Json& transports) {
    for (std::size_t i = 0; i < transports.size(); ++i) {
      if (transports[i].is_null()) continue;
      if (known_[i].is_null() || transports[i].at("reason").get<std::string>().empty()) known_[i] = transports[i];
    }
  }

  // What is known of each transport, from a pair that can use it if there is one; null if no pair was measured.
  [[nodiscard]] const std::vector<Json>& known() const { return known_; }

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

  void add_lines(int first, int repeat) {
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
        if (!complete_.text.empty()) complete_.text += '\n';
        complete_.text += line_of(record);
      }
    }
  }

  // A list for each quantity, by rising second rank; the ranks themselves only where some are missing.
  [[nodiscard]] Json columns(Row& row) const {
    auto& cells = row.cells;
    std::sort(cells.begin(), cells.end(), [](const Cell& a, const Cell& b) { return a.second < b.second; });
    const bool whole = whole_ && cells.size() + 1 == static_cast<std::size_t>(run_.context->size);
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
  const bool whole_;
  std::map<int, int> missing_;            // results, of incomplete rows by first rank
  std::map<int, std::vector<Row>> rows_;  // incomplete ones by first rank, each by case and transport
  std::vector<Json> known_;
  MatrixLines complete_;
};

}  // namespace volley
