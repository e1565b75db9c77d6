// volley-engine-local: a plan in, records out, for the GPUs of this machine.
//
// One process is the whole job and has all GPUs, so this program is not linked with MPI. In order: reads the arguments,
// reads the plan, finds the GPUs, runs the benchmark. This file alone turns exceptions into exit codes.
#include <cstdio>
#include <iostream>

#include "benchmarks.hpp"
#include "measure/sampler.hpp"

namespace volley {
namespace {

PlanReading read(const Options& options) {
  PlanReading reading = read_plan(read_plan_text(options.plan), local_benchmarks, {});
  if (!reading.errors.empty()) throw UsageError(reading.errors);
  return reading;
}

Exit measure(const Options& options, Output& output, std::optional<Records>& records) {
  Startup startup{.main_s = process_age_s()};
  const auto [plan, benchmark, errors] = read(options);
  startup.plan_s = process_age_s();
  Watchdog watchdog("this process", plan.watchdog_s);
  watchdog.enter("looking for GPUs");
  const Job job = make_local_job();
  startup.placed_s = process_age_s();
  benchmark->check(job);
  records.emplace(&output);
  records->write(run_record(job, plan, clock_read_s(), nullptr, startup));
  const auto& cpus = job.facts(job.rank).cores;
  const Usage before = usage_now(cpus);
  const Exit code = benchmark->run({job, nullptr, plan, *records, watchdog});
  records->end("", Json::array({to_json(usage_now(cpus) - before, 0)}));
  return records->failed() ? Exit::failed : code;
}

Exit perform(const Options& options, std::optional<Output>& output, std::optional<Records>& records) {
  if (options.task == Options::Task::help) {
    std::cout << usage(Program::local);
  } else if (options.task == Options::Task::check) {
    static_cast<void>(read(options));
  } else {
    output.emplace(Output::claim(options.records));
    return measure(options, *output, records);
  }
  return Exit::good;
}

Exit run_program(int argc, char** argv) {
  std::optional<Output> output;
  std::optional<Records> records;
  try {
    return perform(parse_options(Program::local, argc, argv), output, records);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "volley-engine: %s\n", error.what());
    if (records) records->end_with_error(error.what());
    return exit_code_of(error);
  }
}

}  // namespace
}  // namespace volley

int main(int argc, char** argv) { return static_cast<int>(volley::run_program(argc, argv)); }
