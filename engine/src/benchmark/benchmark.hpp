// A benchmark reads its own part of the plan, checks it, runs, and writes its records. To add a benchmark, add a file
// or a folder here, and a line in benchmarks.hpp.
#pragma once

#include "base/errors.hpp"
#include "group/job.hpp"
#include "measure/series.hpp"
#include "measure/watchdog.hpp"
#include "record/records.hpp"

namespace volley {

struct Context;

struct Run {
  const Job& job;          // the processes
  const Context* context;  // with their communicators; null without MPI
  const Plan& plan;
  Records& records;
  Watchdog& watchdog;
};

class Benchmark {
 public:
  virtual ~Benchmark() = default;
  // Reads and checks `$.options`, and checks what it needs from the rest of the plan. Complains about every error.
  virtual void read(PlanObject& options, const Plan& plan) = 0;
  // The plan's text without what the first rank alone needs of it.
  [[nodiscard]] virtual std::string for_other_ranks(const std::string& plan) const { return plan; }
  // If not, one process is the whole job.
  [[nodiscard]] virtual bool needs_mpi() const { return true; }
  // Throws UsageError if this job lacks something that the plan names. Called before the run record is written.
  virtual void check(const Job&) const {}
  // Writes all records between the run record and the last one. Exit::good if the machine can do what was asked: that a
  // point failed is known from its record. Collective over the job.
  [[nodiscard]] virtual Exit run(const Run& run) = 0;
};

using BenchmarkMaker = std::unique_ptr<Benchmark>();

struct BenchmarkEntry {
  const char* name;
  BenchmarkMaker* make;
};

// The plan in a text and its benchmark, or all errors of the text, each a line `plan: $.path: what was expected`.
struct PlanReading {
  Plan plan;
  std::unique_ptr<Benchmark> benchmark;
  std::vector<std::string> errors;
};

[[nodiscard]] PlanReading read_plan(const std::string& text, std::span<const BenchmarkEntry> benchmarks);

// The text at `path`, or on standard input for "-". Throws UsageError when it cannot be read.
[[nodiscard]] std::string read_plan_text(const std::string& path);

// MPI needs a request for each message of a window; src/volley/units.py has the same bound.
inline constexpr int largest_window = 1 << 20;

// The options `window` and `direction` of several benchmarks.
inline void read_window(PlanObject& options, Window& window) {
  options.integer("window", window.messages, 1, largest_window);
  options.choice("direction", window.direction, direction_names);
}

// --- the results of a series as JSON ---

[[nodiscard]] const char* status_of(const Series& series);
[[nodiscard]] Json reason_of(const Series& series);
[[nodiscard]] Json to_json(const Mismatch& mismatch);

// The times of a cell of a matrix: seconds of each sample, of which two directions at once take as long as the slower
// one; nothing of a failed point, since they mean nothing.
struct CellTimes {
  std::vector<double> samples_s;
  std::optional<double> median_s;
  std::optional<Interval> interval;  // of the median, if there are enough samples
};
[[nodiscard]] CellTimes times_of(const Series& series);

// The record of a point: the keys that all benchmarks have, and those of this benchmark, `own`, between them.
[[nodiscard]] Json point_record(const char* record, const std::vector<int>& ranks, const Series& series,
                                const Json& own);

// The cell of a matrix; `samples` keeps every sample.
[[nodiscard]] Json matrix_cell(const Series& series, bool samples);

void write_row(Records& records, Json row, const std::vector<Json>& cells);

}  // namespace volley
