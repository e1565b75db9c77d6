// The records of a run, written line by line, each flushed, to a descriptor that nothing else in the process writes to.
#pragma once

#include "base/clock.hpp"
#include "record/json.hpp"
#include "record/plan.hpp"

namespace volley {

inline constexpr int record_version = 2;

class Output {
 public:
  // Keeps the original standard output for records if `path` is "-", and points descriptor 1 at standard error, so that
  // text from MPI, UCX or NCCL cannot get among the records. Call before MPI_Init.
  static Output claim(const std::string& path);

  Output(Output&& other) noexcept;
  Output& operator=(Output&&) = delete;
  ~Output();

  // Writes one line and a newline. Throws when they cannot be written (disk full, pipe closed). The first line opens
  // the file and replaces its contents: a rejected plan does not delete the records of another run.
  void line(const std::string& text);

 private:
  explicit Output(std::string path) : path_(std::move(path)) {}
  void keep(int descriptor);  // throws if the call that returned it failed

  std::string path_;
  int descriptor_ = -1;
};

// Writes on the first rank only, and counts points for the end record.
class Records {
 public:
  explicit Records(Output* output) : output_(output), begun_(Clock::now()) {}
  void write(const Json& record);
  // Writes records that are lines already; there may be none.
  void write_lines(const std::string& lines);
  void write_point(const Json& record);
  // Counts points, or cells of a matrix, with this status.
  void add_points(const Json& status, int points = 1);
  // Writes the last record. `error` is what ended the run early, empty if nothing did; `usage` has one a rank.
  void end(const std::string& error, const Json& usage = Json::array());
  // The same, but ignores that the record cannot be written, since that may be the error.
  void end_with_error(const std::string& error) noexcept;
  [[nodiscard]] bool failed() const { return failed_ > 0; }
  [[nodiscard]] double elapsed_s() const { return seconds_since(begun_); }

 private:
  Output* output_;  // null on every rank but the first
  Clock::time_point begun_;
  int ok_ = 0;
  int failed_ = 0;
  int skipped_ = 0;
};

// Infinite without a budget.
[[nodiscard]] double budget_left_s(const Plan& plan, const Records& records);

}  // namespace volley
