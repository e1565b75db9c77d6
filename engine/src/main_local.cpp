// volley-engine-node: a plan in, records out, for the GPUs of this gpu_set.
//
// One process is the whole job and has all GPUs, so there is no MPI: nothing of it is linked, nor needed. What happens,
// in order: the arguments; the GPUs; the plan; the matrices. This file holds the only handler that ends the program.
#include <cstdio>
#include <iostream>
#include <optional>

#include "base/errors.hpp"
#include "base/options.hpp"
#include "benchmark/gpu_matrix/gpu_matrix.hpp"
#include "benchmark/gpu_matrix/gpu_set.hpp"
#include "group/facts.hpp"
#include "group/job.hpp"
#include "measure/sampler.hpp"
#include "record/output.hpp"
#include "record/plan.hpp"
#include "record/records.hpp"

namespace volley {
namespace {

Plan plan_of_node(const Options& options) {
  PlanReading reading = read_plan(read_plan_text(options.plan), {});
  if (reading.benchmark_known && reading.plan.benchmark != Benchmark::node) {
    throw UsageError("volley-engine-node is for the matrices of a node; all else is volley-engine's");
  }
  if (!reading.errors.empty()) throw UsageError(reading.errors);
  return std::move(reading.plan);
}

// Before it is known how long the plan would wait for a driver that hangs.
Job woken(const Options& options) {
  Watchdog watchdog("this process", Plan{}.watchdog_s);
  watchdog.enter("making the GPUs ready");
  Job job = make_job_alone();
  if (options.wake) gpu_matrix::wake(job.gpus.devices);
  return job;
}

Exit measure(const Options& options, Output& output, std::optional<Records>& records) {
  if (options.few_queues) gpu_matrix::ask_for_few_queues();
  const Job job = woken(options);
  const Plan plan = plan_of_node(options);
  check_node(job, plan);
  records.emplace(&output);
  Watchdog watchdog("this process", plan.watchdog_s);
  records->write(run_record(job, plan, clock_read_s(), std::nullopt, nullptr));
  const Exit code = run_node(job, plan, *records, watchdog);
  records->end("");
  return code;
}

Exit perform(const Options& options, std::optional<Output>& output, std::optional<Records>& records) {
  if (options.task == Options::Task::help) {
    std::cout << usage(Program::node);
  } else if (options.task == Options::Task::check) {
    static_cast<void>(plan_of_node(options));
  } else {
    output.emplace(Output::claim(options.records));
    return measure(options, *output, records);
  }
  return Exit::good;
}

}  // namespace
}  // namespace volley

int main(int argc, char** argv) {
  using namespace volley;
  std::optional<Output> output;
  std::optional<Records> records;
  const auto give_up = [&](const std::string& sentence, Exit code) {
    std::fprintf(stderr, "volley-engine: %s\n", sentence.c_str());
    if (records) records->end_in_trouble(sentence);
    return static_cast<int>(code);
  };
  try {
    return static_cast<int>(perform(parse_options(Program::node, argc, argv), output, records));
  } catch (const UsageError& refusal) {
    return give_up(refusal.lines(), Exit::usage);
  } catch (const UnsupportedError& inability) {
    return give_up(inability.what(), Exit::unsupported);
  } catch (const std::exception& trouble) {
    return give_up(trouble.what(), Exit::failed);
  }
}
