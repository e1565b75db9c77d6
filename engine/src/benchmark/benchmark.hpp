// A benchmark: reads its own part of the plan, checks it, runs, and writes its records. A new one is a file or a folder
// here, and a line in the program that it belongs to (main.cpp, main_local.cpp).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/errors.hpp"
#include "group/job.hpp"
#include "measure/watchdog.hpp"
#include "record/plan.hpp"
#include "record/plan_part.hpp"
#include "record/records.hpp"

namespace volley {

struct Context;

// What a benchmark is given to run with.
struct Run {
  const Job& job;          // who takes part
  const Context* context;  // and how they talk to each other; null in the program without MPI
  const Plan& plan;
  Records& records;
  Watchdog& watchdog;
};

class Benchmark {
 public:
  virtual ~Benchmark() = default;
  // Reads `$.options` and checks it, and what it needs of the rest of the plan; every error is a complaint.
  virtual void read(PlanPart& options, const Plan& plan) = 0;
  // Throws UsageError where this job does not have what the plan names. Before the run record is written.
  virtual void check(const Job&) const {}
  // Writes every record but the run's own and the last. Collective over the job.
  [[nodiscard]] virtual Exit run(const Run& run) = 0;
};

// Each benchmark's own file defines its maker.
using BenchmarkMaker = std::unique_ptr<Benchmark>();

struct BenchmarkEntry {
  const char* name;
  BenchmarkMaker* make;
};

// A plan's text, read: the plan and its benchmark, or every error of the text.
struct PlanReading {
  Plan plan;
  std::unique_ptr<Benchmark> benchmark;
  std::vector<std::string> errors;
};

[[nodiscard]] PlanReading read_plan(const std::string& text, std::span<const BenchmarkEntry> benchmarks,
                                    const std::vector<std::string>& transports);

}  // namespace volley
