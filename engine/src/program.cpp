// volley-engine: a plan in, records out.
//
// In order: reads the arguments, places this process, starts MPI, gathers the facts of all ranks, reads the plan, runs
// the benchmark. This file alone turns exceptions into exit codes and calls MPI_Abort. Without an MPI
// library this process is the whole job.
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <limits>
#include <optional>

#include "benchmark/gpu_matrix/section.hpp"
#include "benchmarks.hpp"
#include "machine/launch_environment.hpp"
#include "measure/sampler.hpp"
#include "transport/registry.hpp"

namespace volley {

namespace {

// MPI_Abort and, after an error, MPI_Finalize may take so long.
constexpr double ending_s = 10;

// What the error handlers need from a run.
struct Session {
  std::optional<Output> output;
  std::optional<Records> records;
  Watchdog* watchdog = nullptr;
  int rank = 0;
  bool follower = false;

  // The end of a job that ends in order on all ranks. The front end is rank 0 and gives the status: a launcher that
  // ends the job because of the status of another rank would end it before it has shown anything.
  [[nodiscard]] Exit end(Exit code) const { return follower ? Exit::good : code; }
};

// Until the plan arrives it only waits for the end of the launcher: a rank that looks for GPUs or is in MPI_Init may
// not hear of that. It is never destroyed: MPI, CUDA and their libraries may hang until the process has ended.
Watchdog* start_watchdog() {
  const pid_t launcher = launch_environment().local_rank ? getppid() : 0;
  return new Watchdog("this rank", std::numeric_limits<double>::infinity(), launcher);
}

// The answer to --about: what the engine was built from, its transports, the sections of the GPU matrix, and what the
// MPI library says of itself.
Json about(const Options& options) {
  Json answer = engine_facts();
  answer["mpi"] = nullptr;
  if (!options.mpi_library.empty()) {
    load_mpi(options.mpi_library);
    answer["mpi"] = mpi_facts();
  }
  Json transports = Json::array();
  for (const auto& entry : registry()) {
    transports.push_back({{"name", entry.name},
                          {"summary", entry.summary},
                          {"mpi", entry.mpi != ThroughMpi::no},
                          {"device_pointers", entry.mpi == ThroughMpi::on_device_pointers},
                          {"memory", name_of(entry.memory)},
                          {"usual", entry.tier == Tier::usual},
                          {"halos", entry.halos}});
  }
  answer["transports"] = transports;
  Json known_faults = Json::array();
  for (const auto& entry : faults()) known_faults.push_back({{"name", entry.name}, {"summary", entry.summary}});
  answer["faults"] = known_faults;
  Json sections = Json::array();
  for (const auto& section : gpu_matrix::sections()) {
    sections.push_back(
        {{"name", section.name}, {"ends", name_of(section.ends)}, {"test", section.fault != Fault::none}});
  }
  answer["sections"] = sections;
  return answer;
}

PlanReading read(const std::string& text) { return read_plan(text, benchmarks); }

void refuse_errors(const PlanReading& reading) {
  if (!reading.errors.empty()) throw AgreedUsageError(reading.errors);
}

// The first rank reads the plan; every rank gets what it needs of it, or finds the same errors.
PlanReading shared_plan(const Options& options, const Context& context) {
  const bool reads = context.rank == 0;
  PlanReading reading;
  std::string shared;
  if (reads) {
    shared = read_plan_text(options.plan);
    reading = read(shared);
    if (reading.errors.empty()) shared = reading.benchmark->for_other_ranks(shared);
  }
  shared = mpi::broadcast(std::move(shared), 0, context.world.get());
  if (!reads) reading = read(shared);
  refuse_errors(reading);
  if (context.size == reading.plan.world_size) return reading;
  throw AgreedUsageError("this job has " + std::to_string(context.size) + (context.size == 1 ? " rank" : " ranks") +
                         ", the plan needs " + std::to_string(reading.plan.world_size));
}

// The records from the first to the last: what the benchmark measures, and what the system did meanwhile. Collective
// over the job; `context` is null without MPI.
Exit run_recorded(Session& session, const PlanReading& reading, const Job& job, const Context* context,
                  Watchdog& watchdog, const Startup& startup) {
  Records& records = *session.records;
  records.write(run_record(job, reading.plan, clock_read_s(), context ? mpi_facts() : Json(nullptr), startup));
  const auto& cpus = job.facts(job.rank).cores;
  const Usage before = usage_now(cpus);
  const Exit code = reading.benchmark->run({job, context, reading.plan, records, watchdog});
  const Json mine = to_json(usage_now(cpus) - before, job.rank);
  std::vector<std::string> all{mine.text()};
  if (context != nullptr) all = mpi::gather(all[0], context->world.get());
  Json usage = Json::array();
  for (const auto& each : all) usage.push_back(Json::written(each));
  records.end("", usage);
  const bool failed = context ? mpi::broadcast_value(records.failed(), 0, context->world.get()) : records.failed();
  return failed ? Exit::failed : code;
}

// The GPUs of this machine, of which one process has all.
Exit measure_without_mpi(const Options& options, Session& session) {
  Startup startup{.main_s = process_age_s()};
  session.output.emplace(Output::claim(options.records));
  const PlanReading reading = read(read_plan_text(options.plan));
  if (!reading.errors.empty()) throw UsageError(reading.errors);
  if (reading.benchmark->needs_mpi()) {
    throw UsageError("`" + reading.plan.benchmark +
                     "` is between ranks: --mpi-library names the MPI library of this job; " +
                     "see volley-engine --help");
  }
  startup.plan_s = process_age_s();
  Watchdog watchdog("this process", reading.plan.watchdog_s);
  watchdog.enter("looking for GPUs");
  const Job job = make_local_job();
  startup.placed_s = process_age_s();
  reading.benchmark->check(job);
  session.records.emplace(&*session.output);
  return run_recorded(session, reading, job, nullptr, watchdog, startup);
}

Exit measure(const Options& options, Session& session) {
  session.follower = options.follower;
  load_mpi(options.mpi_library);
  Startup startup{.main_s = process_age_s()};
  Watchdog& watchdog = *(session.watchdog = start_watchdog());
  session.output.emplace(Output::claim(options.records));
  const Placement placement = place(options);
  startup.placed_s = process_age_s();
  watchdog.move_to(placement.cpus.spare);
  int provided = 0;
  const int level = options.threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED;  // the watchdog makes no MPI call
  VOLLEY_MPI(MPI_Init_thread(nullptr, nullptr, level, &provided));
  startup.mpi_s = process_age_s();
  VOLLEY_MPI(MPI_Comm_rank(MPI_COMM_WORLD, &session.rank));
  Exit code = Exit::good;
  {
    const Context context = make_context(options, placement);
    const PlanReading reading = shared_plan(options, context);
    reading.benchmark->check(context);
    startup.plan_s = process_age_s();
    session.records.emplace(context.rank == 0 ? &*session.output : nullptr);
    watchdog.watch_over(context.name_of({context.rank}) + " of " + std::to_string(context.size),
                        reading.plan.watchdog_s);
    watchdog.speak_of_signals();  // here, because MPI_Init sets handlers
    code = run_recorded(session, reading, context, &context, watchdog, startup);
    watchdog.enter("MPI_Comm_free, after the last record");
  }
  watchdog.enter("MPI_Finalize, after the last record");
  VOLLEY_MPI(MPI_Finalize());
  watchdog.enter("the end of the process, after MPI_Finalize");
  return session.end(code);
}

Exit perform(const Options& options, Session& session) {
  switch (options.task) {
    case Options::Task::measure:
      return options.mpi_library.empty() ? measure_without_mpi(options, session) : measure(options, session);
    case Options::Task::check: refuse_errors(read(read_plan_text(options.plan))); break;
    case Options::Task::about: std::cout << about(options).text() << '\n'; break;
    case Options::Task::help: std::cout << usage(); break;
  }
  return Exit::good;
}

// All ranks have the same error: rank 0 prints it, and all finalize MPI.
Exit exit_together(const Session& session, const AgreedUsageError& error) {
  if (session.rank == 0) std::fprintf(stderr, "volley-engine: %s\n", error.what());
  if (mpi_is_running()) {
    session.watchdog->enter_last("MPI_Finalize, after this error", ending_s);
    MPI_Finalize();
  }
  return session.end(Exit::usage);
}

// Only this rank has the error: it prints it, ends the records if it writes them, and aborts the job.
Exit abort_job(Session& session, const std::exception& error) {
  const bool in_job = mpi_is_running();
  const std::string rank = in_job ? "rank " + std::to_string(session.rank) + ": " : "";
  std::fprintf(stderr, "volley-engine: %s%s\n", rank.c_str(), error.what());
  if (session.records) session.records->end_with_error(error.what());
  if (in_job) {
    session.watchdog->enter_last("MPI_Abort, after this error", ending_s);
    MPI_Abort(MPI_COMM_WORLD, static_cast<int>(exit_code_of(error)));
  }
  return exit_code_of(error);
}

}  // namespace

Exit run_program(int argc, char** argv) {
  Session session;
  try {
    return perform(parse_options(argc, argv), session);
  } catch (const AgreedUsageError& error) {
    return exit_together(session, error);
  } catch (const std::exception& error) {
    return abort_job(session, error);
  }
}

}  // namespace volley
