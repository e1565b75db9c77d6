// Collects the results of pairs, and makes the lines of the rows of the matrices from them.
#pragma once

#include <cmath>
#include <cstdio>
#include <cstdlib>

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

// What the first rank of a pair has of it: the record of each transport, after '+' if the pair can use it and '-' if it
// cannot, or nothing if the pair was not measured; and a series for each transport of each case in turn.
struct PairResult {
  int second = 0;
  std::vector<std::string> transports;
  std::vector<Series> series;
};

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
  void add(int first, int repeat, const PairResult& result) {
    learn(result.transports);
    auto& rows = rows_[first];
    rows.resize(result.series.size());
    for (std::size_t i = 0; i < rows.size(); ++i) add_cell(rows[i], result.second, result.series[i]);
    const auto [missing, is_new] = missing_.try_emplace(first, 0);
    if (is_new) missing->second = results_of_(first);
    if (--missing->second > 0) return;
    add_lines(first, repeat);
    rows_.erase(first);
    missing_.erase(first);
  }

  // The rows, a record for each case and transport, that became complete since the last call.
  [[nodiscard]] MatrixLines take() { return std::exchange(complete_, {}); }

  // Takes what a pair, or another rank, knows of the transports.
  void learn(const std::vector<std::string>& transports) {
    for (std::size_t i = 0; i < transports.size(); ++i) {
      if (known_[i].empty() || transports[i].starts_with('+')) known_[i] = transports[i];
    }
  }

  // What is known of each transport, as in PairResult, from a pair that can use it if there is one.
  [[nodiscard]] const std::vector<std::string>& known() const { return known_; }

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
    std::map<int, std::array<Json, 3>> kept;          // by second rank, where samples are kept: see columns()
  };

  void add_cell(Row& row, int second, const Series& series) {
    const std::string_view status = status_of(series);
    ++complete_.counts[static_cast<std::size_t>(std::ranges::find(MatrixLines::statuses, status) -
                                                MatrixLines::statuses.begin())];
    if (status == "failed") {
      row.failed.push_back({{"rank", second}, {"reason", reason_of(series)}, {"mismatch", to_json(*series.mismatch)}});
    } else if (status == "skipped") {
      row.skipped[series.skipped].push_back(second);
    }
    const auto [samples_s, median_s, interval] = times_of(series);
    const auto [of, low_s, high_s] = interval.value_or(Interval{});
    row.cells.push_back({second, median_s.value_or(0), low_s, high_s, samples_s.size()});
    row.messages_timed += series.messages_timed;
    row.messages_verified += series.messages_verified;
    if (!options_.samples) return;
    row.kept[second] = {samples_s, median_s ? series.visits : std::vector<std::uint64_t>{},
                        median_s ? series.work_s : std::vector<double>{}};
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
        complete_.text += record.text();
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
    Json ranks = Json::array(), medians = ranks, lows = ranks, highs = ranks, samples = ranks, skipped = ranks;
    for (const auto& cell : cells) {
      if (!whole) ranks.push_back(cell.second);
      medians.push_back(in_units(cell.median_s, unit_s));
      lows.push_back(in_units(cell.low_s, unit_s));
      if (options_.repeats == 1) highs.push_back(in_units(cell.high_s, unit_s));
      samples.push_back(cell.samples);
    }
    for (auto& [reason, of] : row.skipped) {
      std::sort(of.begin(), of.end());
      skipped.push_back({{"ranks", of}, {"reason", reason}});
    }
    Json lists = {{"ranks", ranks},
                  {"unit_s", unit_s},
                  {"medians", medians},
                  {"lows", lows},
                  {"highs", highs},
                  {"samples", samples},
                  {"messages_timed", row.messages_timed},
                  {"messages_verified", row.messages_verified},
                  {"failed", row.failed},
                  {"skipped", skipped}};
    constexpr std::array names{"samples_s", "visits", "work_s"};
    for (std::size_t i = 0; i < names.size(); ++i) {
      lists[names[i]] = Json::array();
      for (const auto& [second, kept] : row.kept) lists[names[i]].push_back(kept[i]);
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
  std::vector<std::string> known_;
  MatrixLines complete_;
};

}  // namespace volley
