// The benchmark `overlap`: an exchange between two ranks or a non-blocking collective among all, a computation that
// takes about as long, and both at once.
#include "benchmark/overlap/overlap.hpp"
#include "benchmark/operations.hpp"
#include "benchmark/transport_set.hpp"
#include "group/group_control.hpp"
#include "measure/sampler.hpp"

namespace volley::overlap {
namespace {

// The shortest computation: much longer than the clock readings around it.
constexpr double min_computation_s = 2e-6;
// The length of an exchange is first estimated from so much time.
constexpr double estimate_s = 0.02;

Workload workload(bool collective) {
  Workload timed{.name = "overlap", .messages = {1, 0}, .divisor = 1, .pass_counts = 4};
  if (collective) return timed;
  timed.messages[1] = 1;
  timed.window = Window{.messages = 1, .direction = Direction::bi};
  return timed;
}

// How far the length of a computation may be from what is wanted. 12 attempts find it: each may grow sixteenfold.
constexpr double length_tolerance = 0.05;
constexpr int max_attempts = 12;
constexpr int batches = 4;

// Seconds of one computation, the shortest of some batches.
double shortest_s(OverlapDriver& driver, std::uint64_t repeats) {
  double shortest = std::numeric_limits<double>::infinity();
  for (int batch = 0; batch < batches; ++batch) {
    driver.arm({}, repeats, {});
    const double batch_s = timed([&](std::uint64_t count) { driver.run({}, count, {}); }, repeats);
    driver.disarm();
    shortest = std::min(shortest, batch_s / static_cast<double>(repeats));
  }
  return shortest;
}

struct Case {
  Limit limit;
  Computation* computation;
  std::unique_ptr<OverlapDriver> alone;  // computes
  std::unique_ptr<OverlapDriver> both;   // computes and exchanges
  std::uint64_t steps = 0;
};

using Computations = std::map<std::pair<bool, Limit>, std::unique_ptr<Computation>>;  // on a device?

struct Subject {
  Candidate* candidate = nullptr;
  std::optional<Collective> collective = {};     // none: an exchange between two ranks
  std::unique_ptr<HaloExchange> operation = {};  // the collective
  std::unique_ptr<CollectiveVerifier> verifier = {};
  std::unique_ptr<OverlapDriver> exchange = {};
  std::vector<Case> cases = {};

  [[nodiscard]] HaloExchange& moved() const { return operation ? *operation : *candidate->transport->halo(); }
};

class Overlap final : public SweepBenchmark {
 public:
  void read(PlanObject& options, const Plan& plan) override {
    operations_ = read_operations(options);
    collective_ = !operations_.empty();
    if (collective_) check_ranks(options, plan, Element::float32);
    if (std::ranges::count(operations_, Operation::barrier) > 0)
      options.complain("operations", "a barrier moves no data");
    SweepBenchmark::read(options, plan);
    options.names("computations", computations_, "`memory` or `arithmetic`",
                  {name_of(Limit::memory), name_of(Limit::arithmetic)});
    if (computations_.empty()) options.complain("computations", "expected at least one computation");
    options.integer("progress_calls", progress_calls_, 0, max_progress_calls);
  }

 private:
  static constexpr int max_progress_calls = 1'000'000;

  std::string unsuitable(const Candidate& each) const override {
    if (collective_ && each.transport->collectives()->exchange(Collective{})) return {};
    if (!collective_ && (each.entry->halos || each.entry->memory == MemoryKind::none)) return {};
    const std::string what = collective_ ? "operations" : "messages";
    return "its " + what + " cannot be started and completed in separate calls";
  }

  std::uint64_t own_bytes(MemoryKind kind) const override {
    if (std::ranges::count(computations_, name_of(Limit::memory)) == 0) return 0;
    return kind == MemoryKind::host ? host_working_set_bytes() : device_working_set_bytes;
  }

  void measure(const Run& run, const RankGroup& group, TransportSet& transports) override {
    std::unique_ptr<RankControl> control;
    if (collective_) control = std::make_unique<GroupControl>(*run.context, group);
    else control = std::make_unique<MpiControl>(group);
    const Workload timed_work = workload(collective_);
    Sampler sampler(*control, run.plan.sampling, timed_work, run.watchdog);
    Computations computations;
    auto subjects = subjects_of(group, transports, computations);
    for (const auto bytes : sizes_bytes_) {
      const double left_s = time_left_s(group, run.plan, run.records);
      if (left_s > 0) set_lengths(run, *control, transports, subjects, bytes);
      auto all = series_of(run, transports, subjects, bytes);
      sampler.measure(all, left_s);
      write(run, group, subjects, all, bytes);
    }
  }

  std::vector<Subject> subjects_of(const RankGroup& group, TransportSet& transports, Computations& computations) const {
    std::vector<Subject> subjects;
    for (auto& candidate : transports.candidates()) {
      if (!candidate.listed) continue;
      for (const Operation operation : operations_) {
        Subject& subject = subjects.emplace_back(Subject{.candidate = &candidate});
        subject.collective = collective_of(operation, Element::float32, group);
        subject.operation = candidate.transport->collectives()->exchange(*subject.collective);
      }
      if (!collective_) subjects.push_back({.candidate = &candidate});
    }
    for (Subject& subject : subjects) add_cases(subject, computations);
    return subjects;
  }

  void add_cases(Subject& subject, Computations& computations) const {
    const bool on_device = subject.candidate->entry->memory == MemoryKind::device;
    for (const auto& name : computations_) {
      const Limit limit = name == name_of(Limit::memory) ? Limit::memory : Limit::arithmetic;
      auto& computation = computations[{on_device, limit}];
      if (!computation) computation = on_device ? make_device_computation(limit) : make_host_computation(limit);
      const auto driver = [&](OverlapWork work) { return computation->driver(subject.moved(), work, progress_calls_); };
      if (!subject.exchange) subject.exchange = driver({.exchanges = true});
      subject.cases.push_back({.limit = limit,
                               .computation = computation.get(),
                               .alone = driver({.computes = true}),
                               .both = driver({.exchanges = true, .computes = true})});
    }
  }

  Series series_of(const Run& run, const TransportSet& transports, Subject& subject, std::uint64_t bytes) const {
    const Candidate& candidate = *subject.candidate;
    const std::uint64_t whole = subject.collective ? subject.collective->whole(bytes) : bytes;
    Series series = transports.series(candidate, whole, run.plan.verify, workload(collective_).window);
    if (!subject.collective) return series;
    series.variant = std::string(" (") + name_of(subject.collective->operation) + ")";
    const std::string refused = refused_operation(run.plan, *subject.collective, whole, *candidate.entry);
    if (!refused.empty()) series.skipped = refused;
    subject.verifier = std::make_unique<CollectiveVerifier>(*subject.collective, whole, transports.memory(candidate));
    series.verifier = subject.verifier.get();
    return series;
  }

  // Gives every computation the length of the exchange that it is beside.
  void set_lengths(const Run& run, Control& control, const TransportSet& transports, std::vector<Subject>& subjects,
                   std::uint64_t bytes) const {
    Sampling few;
    few.point_time_s = estimate_s;
    few.min_visits = 1;
    const Workload timed_work = workload(collective_);
    std::vector<Series> exchanges;
    for (auto& subject : subjects) {
      exchanges.push_back(series_of(run, transports, subject, bytes));
      exchanges.back().driver = subject.exchange.get();
    }
    Sampler(control, few, timed_work, run.watchdog).measure(exchanges);
    for (std::size_t i = 0; i < subjects.size(); ++i) {
      if (!exchanges[i].skipped.empty()) continue;
      // The shortest, so that an interruption does not look like a long exchange.
      const auto& samples = exchanges[i].first_samples;
      const double exchange_s = control.shared(control.leads() ? std::ranges::min(samples) : 0.0);
      for (auto& each : subjects[i].cases) {
        run.watchdog.enter("finding the length of the computation beside " + exchanges[i].title());
        each.steps = steps_for(control, run.watchdog, *each.alone, std::max(exchange_s, min_computation_s));
        each.alone->set_steps(each.steps);
        each.both->set_steps(each.steps);
      }
    }
  }

  // For each transport its exchange, and for each of its computations that alone, and both at once.
  std::vector<Series> series_of(const Run& run, const TransportSet& transports, std::vector<Subject>& subjects,
                                std::uint64_t bytes) const {
    std::vector<Series> all;
    for (auto& subject : subjects) {
      const Series exchange = series_of(run, transports, subject, bytes);
      const auto add = [&](const std::string& what, OverlapDriver* driver, bool moves) {
        Series& series = all.emplace_back(exchange);
        series.variant += what;
        series.driver = driver;
        if (!moves) series.verifier = nullptr;
      };
      add("", subject.exchange.get(), true);
      for (auto& each : subject.cases) {
        const std::string limit = name_of(each.limit);
        add(", computation alone, bound by " + limit, each.alone.get(), false);
        add(", computation bound by " + limit, each.both.get(), true);
      }
    }
    return all;
  }

  // One record for each transport and computation. The series are in the order of series_of().
  static void write(const Run& run, const RankGroup& group, std::vector<Subject>& subjects,
                    const std::vector<Series>& all, std::uint64_t bytes) {
    auto series = all.begin();
    for (auto& subject : subjects) {
      const Series& exchange = *series++;
      for (const auto& each : subject.cases) {
        const Series& alone = *series++;
        const Series& both = *series++;
        const std::string wrong = agreed_reason(group, both.skipped.empty() ? each.computation->wrong() : "");
        Json made = record(group.ranks, each, exchange, alone, both, wrong);
        made["size_bytes"] = bytes;
        if (subject.collective) made["operation"] = name_of(subject.collective->operation);
        run.records.write_point(made);
      }
    }
  }

  static Json record(const std::vector<int>& ranks, const Case& which, const Series& exchange, const Series& alone,
                     const Series& both, const std::string& wrong) {
    const auto part = [](const Series& series, TimedPart which_part) {
      return series.parts.empty() ? std::vector<double>{} : series.parts[which_part];
    };
    Series whole = both;
    if (exchange.mismatch) whole.mismatch = exchange.mismatch;
    whole.messages_timed += exchange.messages_timed;
    whole.messages_verified += exchange.messages_verified;
    whole.elapsed_s += exchange.elapsed_s + alone.elapsed_s;
    Json made = point_record("overlap", ranks, whole,
                             {{"computation", name_of(which.limit)},
                              {"steps", which.steps},
                              {"working_set_bytes", which.computation->working_set_bytes()},
                              {"exchange_s", exchange.first_samples},
                              {"computation_s", alone.first_samples},
                              {"both_s", both.first_samples},
                              {"computation_alone_s", part(alone, computation_part)},
                              {"computation_beside_s", part(both, computation_part)},
                              {"exchange_alone_s", part(exchange, exchange_part)},
                              {"exchange_beside_s", part(both, exchange_part)},
                              {"exchanges_per_sample", exchange.count},
                              {"computations_per_sample", alone.count},
                              {"both_per_sample", both.count}});
    if (!wrong.empty()) {
      made["status"] = "failed";
      made["reason"] = wrong;
    }
    return made;
  }

  std::vector<Operation> operations_;  // none: an exchange between two ranks
  std::vector<std::string> computations_;
  int progress_calls_ = 0;
};

}  // namespace

std::uint64_t steps_for(Control& control, Watchdog& watchdog, OverlapDriver& alone, double wanted_s) {
  std::uint64_t steps = 1;
  double once_s = 0;
  double expected_s = 0;  // of one computation
  for (int attempt = 0; attempt < max_attempts; ++attempt) {
    alone.set_steps(steps);
    // One call is too short for the clock; a computation of another length than the last one needs a first call.
    const auto repeats = static_cast<std::uint64_t>(std::clamp(1e-4 / std::max(once_s, 1e-9), 1.0, 1000.0));
    watchdog.progress(10 * expected_s * batches * static_cast<double>(repeats));
    control.ready();
    once_s = control.shared(shortest_s(alone, repeats));
    const double change = std::clamp(wanted_s / std::max(once_s, 1e-9), 1.0 / 16, 16.0);
    if (std::abs(change - 1) <= length_tolerance) break;
    const auto next = static_cast<std::uint64_t>(std::max(1.0, std::round(static_cast<double>(steps) * change)));
    if (next == steps) break;
    steps = next;
    expected_s = once_s * change;
  }
  return steps;
}

}  // namespace volley::overlap

namespace volley {

std::unique_ptr<Benchmark> make_overlap() { return std::make_unique<overlap::Overlap>(); }

}  // namespace volley
