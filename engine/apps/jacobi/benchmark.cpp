#include "jacobi/benchmark.hpp"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <map>
#include <memory>
#include <span>
#include <sstream>
#include <vector>

#include "benchmark/series_record.hpp"
#include "benchmark/transport_set.hpp"
#include "jacobi/problem.hpp"
#include "measure/memory.hpp"
#include "mpi/text.hpp"

namespace volley {

namespace {

using namespace jacobi;

// Seconds between two records of progress.
constexpr double progress_every_s = 1.0;

// What a rank needs besides its field. Host: messages, threads, MPI. Device: messages (2 MiB and more each), and what
// libraries take there.
constexpr std::uint64_t spare_bytes(MemoryKind kind) {
  return (kind == MemoryKind::device ? std::uint64_t{512} : std::uint64_t{64}) << 20;
}

std::size_t point_bytes(const JacobiOptions& plan) { return plan.single ? sizeof(float) : sizeof(double); }

std::uint64_t needed_bytes(MemoryKind kind, const JacobiOptions& plan) {
  return bytes_of_field(kind, plan.domain[0], plan.domain[1], point_bytes(plan));
}

// Ranks that share this rank's memory of that kind.
std::int64_t sharers(const Context& context, MemoryKind kind) {
  if (kind == MemoryKind::host) return context.local_size;
  const RankFacts& self = context.ranks[static_cast<std::size_t>(context.rank)];
  return std::count_if(context.ranks.begin(), context.ranks.end(),
                       [&](const RankFacts& other) { return same_device(self, other); });
}

// What each rank may take for its fields: the least of all ranks'. Collective.
std::uint64_t share_of_memory(const Context& context, MemoryKind kind) {
  std::uint64_t share = make_memory(kind)->available() / static_cast<std::uint64_t>(sharers(context, kind));
  VOLLEY_MPI(MPI_Allreduce(MPI_IN_PLACE, &share, 1, MPI_UINT64_T, MPI_MIN, context.world.get()));
  return share > spare_bytes(kind) ? share - spare_bytes(kind) : 0;
}

// Why the domain cannot be had in so much memory; empty when it can.
std::string too_large(MemoryKind kind, const JacobiOptions& plan, std::uint64_t share) {
  const std::uint64_t needed = needed_bytes(kind, plan);
  if (needed <= share) return {};
  const std::size_t each = point_bytes(plan);
  auto most = static_cast<std::int64_t>(std::sqrt(static_cast<double>(share) / 2 / static_cast<double>(each)));
  while (most > 0 && bytes_of_field(kind, most, most, each) > share) --most;
  return "a domain of " + std::to_string(plan.domain[0]) + " x " + std::to_string(plan.domain[1]) + " points needs " +
         (needed == beyond_memory ? "more than " : "") + in_gib(needed) + " of " +
         (kind == MemoryKind::device ? "device " : "") + "memory on each rank, " + in_gib(share) +
         " is free: at most about " + std::to_string(most) + " x " + std::to_string(most);
}

std::string hexadecimal(std::uint64_t value) {
  std::ostringstream text;
  text << std::hex << std::setfill('0') << std::setw(16) << value;
  return text.str();
}

Json parts_json(const std::vector<Parts>& ranks) {
  Json list = Json::array();
  for (const auto& parts : ranks) {
    list.push_back({{"interior_s", parts.interior_s},
                    {"edges_s", parts.edges_s},
                    {"pack_s", parts.pack_s},
                    {"exchange_s", parts.exchange_s},
                    {"reduction_s", parts.reduction_s}});
  }
  return list;
}

// A number that JSON has.
Json finite(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json residuals_json(const std::vector<Residual>& residuals) {
  Json list = Json::array();
  for (const auto& [iteration, value] : residuals)
    list.push_back({{"iteration", iteration}, {"residual", finite(value)}});
  return list;
}

Json head(const TransportEntry& entry, const JacobiOptions& plan, const char* status, const std::string& reason) {
  return {{"record", "jacobi"},      {"version", record_version},
          {"transport", entry.name}, {"grid", plan.grid},
          {"domain", plan.domain},   {"precision", plan.single ? "float" : "double"},
          {"overlap", plan.overlap}, {"memory", name_of(entry.memory)},
          {"status", status},        {"reason", reason.empty() ? Json(nullptr) : Json(reason)}};
}

Json jacobi_record(const TransportEntry& entry, const JacobiOptions& plan, const Findings& found, bool interleaved) {
  const auto [across, along] = plan.grid;
  const std::uint64_t messages = 2 * (static_cast<std::uint64_t>(across - 1) * static_cast<std::uint64_t>(along) +
                                      static_cast<std::uint64_t>(along - 1) * static_cast<std::uint64_t>(across));
  Json record = head(entry, plan, found.reason.empty() ? "ok" : "failed", found.reason);
  record["interleaved"] = interleaved;
  record["threads"] = found.threads;
  record["stores"] = found.stores ? Json(name_of(*found.stores)) : Json(nullptr);
  record["iterations"] = found.iterations;
  record["converged"] = found.converged;
  record["residuals"] = residuals_json(found.residuals);
  record["batch_iterations"] = found.batch_iterations;
  record["batch_s"] = found.batches_s;
  record["cold_exchange_s"] = found.cold_exchange_s;
  record["parts"] = parts_json(found.parts);
  record["copy_s"] = found.copy_s;
  record["copy_bytes"] = found.copy_bytes;
  record["field_hash"] = found.hash ? Json(hexadecimal(*found.hash)) : Json(nullptr);
  record["deviation"] = found.error ? Json(*found.error) : Json(nullptr);
  record["messages_timed"] = messages * found.iterations;
  record["messages_verified"] = found.messages_verified;
  record["mismatch"] = found.wrong ? to_json(found.wrong->mismatch) : Json(nullptr);
  record["elapsed_s"] = found.elapsed_s;
  return record;
}

// A transport of the plan, and its solution once it can be had.
struct Solution {
  const TransportEntry* entry;
  std::unique_ptr<Halos> halos;
  std::unique_ptr<Problem> problem;
};

class JacobiRun {
 public:
  JacobiRun(const Run& run, const JacobiOptions& options)
      : context_(*run.context),
        plan_(run.plan),
        options_(options),
        grid_(options, run.context->rank),
        records_(run.records),
        watchdog_(run.watchdog) {}

  // Writes the transports' records and those of domains that are too large; the others are ready to be solved.
  void prepare() {
    for (const auto& name : plan_.transports) {
      const TransportEntry& entry = *find_transport(name);
      watchdog_.enter("transport " + name + ", jacobi");
      auto halos = std::make_unique<Halos>(context_, grid_, entry, point_bytes(options_));
      const std::string reason = halos->unavailable(plan_);
      records_.write(transport_record(entry, reason, Json::object()));
      if (!reason.empty()) continue;
      if (!shares_.contains(entry.memory)) shares_[entry.memory] = share_of_memory(context_, entry.memory);
      const std::string large = too_large(entry.memory, options_, shares_[entry.memory]);
      if (!large.empty()) records_.write_point(head(entry, options_, "skipped", large));
      else solutions_.push_back({&entry, std::move(halos), nullptr});
    }
  }

  // Solutions take turns, a batch each, where their fields fit into memory together; otherwise they follow each other.
  void solve_all() {
    std::map<MemoryKind, std::uint64_t> needed;
    for (const auto& solution : solutions_)
      needed[solution.entry->memory] += needed_bytes(solution.entry->memory, options_);
    const bool together =
        std::all_of(needed.begin(), needed.end(), [&](const auto& sum) { return sum.second <= shares_.at(sum.first); });
    if (together) return solve(solutions_);
    for (auto& solution : solutions_) solve({&solution, 1});
  }

 private:
  void solve(std::span<Solution> solutions) {
    for (auto& solution : solutions) {
      enter(solution);
      solution.problem =
          std::make_unique<Problem>(context_, plan_, options_, grid_, *solution.entry, *solution.halos, watchdog_);
      solution.problem->begin();
    }
    const auto going = [](const Solution& solution) { return solution.problem->going(); };
    for (std::size_t first = 0; std::any_of(solutions.begin(), solutions.end(), going); ++first) {
      for (std::size_t i = 0; i < solutions.size(); ++i) {
        Solution& solution = solutions[(first + i) % solutions.size()];
        if (!going(solution)) continue;
        enter(solution);
        solution.problem->batch();
        tell_progress(solutions, solution);
      }
    }
    for (auto& solution : solutions) {
      enter(solution);
      solution.problem->finish();
      records_.write_point(jacobi_record(*solution.entry, options_, solution.problem->found(), solutions.size() > 1));
    }
  }

  void enter(const Solution& solution) {
    watchdog_.enter("transport " + std::string(solution.entry->name) + ", jacobi");
  }

  // Solutions that went on without a word for a while would look as if they hung.
  void tell_progress(std::span<const Solution> solutions, const Solution& solution) {
    if (seconds_since(told_) < progress_every_s) return;
    told_ = Clock::now();
    double left_s = 0;
    for (const auto& other : solutions) left_s += other.problem->left_s();
    records_.write({{"record", "jacobi_progress"},
                    {"version", record_version},
                    {"transport", solution.entry->name},
                    {"iterations", solution.problem->found().iterations},
                    {"elapsed_s", records_.elapsed_s()},
                    {"left_s", left_s}});
  }

  const Context& context_;
  const Plan& plan_;
  const JacobiOptions& options_;
  const Grid grid_;
  Records& records_;
  Watchdog& watchdog_;
  std::map<MemoryKind, std::uint64_t> shares_;
  std::vector<Solution> solutions_;
  Clock::time_point told_ = Clock::now();
};

// Every grid of so many processes, for people: "1 x 6, 2 x 3, 3 x 2, 6 x 1".
std::string grids_of(int ranks) {
  std::string text;
  for (int across = 1; across <= ranks; ++across) {
    if (ranks % across != 0) continue;
    text += (text.empty() ? "" : ", ") + std::to_string(across) + " x " + std::to_string(ranks / across);
  }
  return text;
}

class JacobiBenchmark final : public Benchmark {
 public:
  void read(PlanPart& options, const Plan& plan) override {
    options.two("grid", options_.grid, 1);
    options.two("domain", options_.domain, std::int64_t{3});
    options.choice("precision", options_.single, {{"double", false}, {"float", true}});
    options.integer("iterations", options_.iterations, std::uint64_t{1});
    options.positive("tolerance", options_.tolerance);
    options.integer("check_every", options_.check_every, std::uint64_t{1});
    options.boolean("overlap", options_.overlap);
    options.optional_integer("threads", options_.threads, 1);
    check_grid(options, plan);
    check_transports(options, plan);
  }

  Exit run(const Run& run) override {
    {
      JacobiRun solutions(run, options_);
      solutions.prepare();
      solutions.solve_all();
    }
    return mpi::broadcast_value(run.records.failed(), 0, run.context->world.get()) ? Exit::failed : Exit::good;
  }

 private:
  void check_grid(PlanPart& options, const Plan& plan) const {
    const auto [across, along] = options_.grid;
    if (std::int64_t{across} * along == plan.world_size) return;
    options.complain("grid", "a grid of " + std::to_string(across) + " x " + std::to_string(along) +
                                 " processes does not fit " + std::to_string(plan.world_size) +
                                 (plan.world_size == 1 ? " rank" : " ranks") +
                                 "; these do: " + grids_of(plan.world_size));
  }

  static void check_transports(PlanPart& options, const Plan& plan) {
    for (std::size_t i = 0; i < plan.transports.size(); ++i) {
      const TransportEntry* entry = find_transport(plan.transports[i]);
      if (entry == nullptr || entry->halos) continue;
      std::string names;
      for (const auto& other : registry()) {
        if (other.halos && !other.test) names += (names.empty() ? "" : ", ") + std::string(other.name);
      }
      options.complain_of_plan(PlanPart::place("transports", i),
                               "`" + plan.transports[i] + "` carries no halos; those that do: " + names);
    }
  }

  JacobiOptions options_;
};

}  // namespace

std::unique_ptr<Benchmark> make_jacobi() { return std::make_unique<JacobiBenchmark>(); }

}  // namespace volley
