// The plan says what to measure. src/volley/run/plan.py defines it, and schema/plan.schema.json is generated from
// there. This file has the part that all benchmarks share; each benchmark reads its own part, `options`.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace volley {

class PlanObject;

inline constexpr int plan_version = 2;

struct Sampling {
  bool fixed = false;                 // one batch of `iterations` after `warmup`, as the tutorial does
  double ci = 0.01;                   // adaptive: half width of the median's confidence interval, relative
  double point_time_s = 1.0;          // adaptive: a point ends after this long, at the end of a round
  std::optional<double> size_time_s;  // for one message size; a transport that would take more than its part is skipped
  int min_visits = 3;
  std::uint64_t warmup = 5;
  std::uint64_t iterations = 50;
  bool tail = false;  // adaptive: k = 1
};

struct Plan {
  std::string benchmark;
  int world_size = 2;
  std::vector<std::string> transports;
  std::map<std::string, std::string> excluded;  // transports that must not be opened, each with the reason
  Sampling sampling;
  bool verify = true;
  bool share_device = false;
  std::optional<double> budget_s;
  double watchdog_s = 60.0;
  std::string document;  // the plan's text, for the run record
};

// The names that a plan may contain, and the function that reads its options.
struct PlanReader {
  std::vector<std::string> benchmarks;
  std::vector<std::string> transports;
  std::vector<std::string> faults;  // that may follow a transport's name and a +
  // Called once if the plan names one of these benchmarks.
  std::function<void(PlanObject& options, const Plan& plan)> read_options;
};

// Reads a plan's text. Returns all its errors, each a line `plan: $.path: what was expected`; none if it is valid.
[[nodiscard]] std::vector<std::string> read_plan(const std::string& text, const PlanReader& reader, Plan& plan);

// The text at `path`, or on standard input for "-". Throws UsageError when it cannot be read.
[[nodiscard]] std::string read_plan_text(const std::string& path);

}  // namespace volley
