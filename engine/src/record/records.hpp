// The records of a run, with counts of points for the end record.
#pragma once

#include <string>

#include "base/clock.hpp"
#include "record/json.hpp"
#include "record/output.hpp"
#include "record/plan.hpp"

namespace volley {

inline constexpr int record_version = 2;

// Counts points and knows how the run ends; writes on the first rank only.
class Records {
 public:
  explicit Records(Output* output) : output_(output), begun_(Clock::now()) {}
  void write(const Json& record);
  void write_point(const Json& record);
  // One more point, or cell of a matrix, has this status.
  void count(const std::string& status);
  // The last record: `trouble` is what ended the run early, empty when nothing did; `usage` is that of every rank.
  void end(const std::string& trouble, const Json& usage = Json::array());
  // The same where the trouble may be the output itself: a record that cannot be written is left out.
  void end_in_trouble(const std::string& trouble) noexcept;
  [[nodiscard]] bool failed() const { return failed_ > 0; }
  [[nodiscard]] double elapsed_s() const { return seconds_since(begun_); }

 private:
  Output* output_;  // null on every rank but the first
  Clock::time_point begun_;
  int ok_ = 0;
  int failed_ = 0;
  int skipped_ = 0;
};

// The plan's time budget is used up.
[[nodiscard]] bool budget_used(const Plan& plan, const Records& records);

// The reason for skipped points after the budget is used up.
[[nodiscard]] std::string budget_reason(const Plan& plan);

}  // namespace volley
