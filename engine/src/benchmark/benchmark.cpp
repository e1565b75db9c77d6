#include "benchmark/benchmark.hpp"

#include <algorithm>

#include "measure/faults.hpp"

namespace volley {

PlanReading read_plan(const std::string& text, std::span<const BenchmarkEntry> benchmarks,
                      const std::vector<std::string>& transports) {
  PlanReading reading;
  PlanReader reader{.benchmarks = {}, .transports = transports, .faults = {}, .read_options = {}};
  for (const auto& entry : faults()) reader.faults.emplace_back(entry.name);
  for (const auto& entry : benchmarks) reader.benchmarks.emplace_back(entry.name);
  reader.read_options = [&](PlanObject& options, const Plan& plan) {
    const auto found = std::find_if(benchmarks.begin(), benchmarks.end(),
                                    [&](const auto& entry) { return entry.name == plan.benchmark; });
    reading.benchmark = found->make();
    reading.benchmark->read(options, plan);
  };
  reading.errors = read_plan(text, reader, reading.plan);
  return reading;
}

}  // namespace volley
