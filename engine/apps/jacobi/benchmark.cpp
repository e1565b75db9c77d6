// The benchmark `jacobi`: Laplace's equation on a grid of processes, with the halos of each transport of the plan.
#include <set>

#include "benchmark/transport_set.hpp"
#include "jacobi/transport_solve.hpp"

namespace volley::jacobi {
namespace {

// More than any machine has cores. A barrier takes memory for each thread.
constexpr int max_threads = 1 << 16;

// All grids of this many processes: "1 x 6, 2 x 3, 3 x 2, 6 x 1".
std::string grids_of(std::int64_t ranks) {
  std::set<std::int64_t> divisors;
  for (std::int64_t divisor = 1; divisor * divisor <= ranks; ++divisor) {
    if (ranks % divisor == 0) divisors.insert({divisor, ranks / divisor});
  }
  std::vector<std::string> grids;
  for (const auto across : divisors) grids.push_back(std::to_string(across) + " x " + std::to_string(ranks / across));
  return joined(grids);
}

void check_grid(PlanObject& given, const Plan& plan, const JacobiOptions& options) {
  const auto& [across, along] = options.grid;
  if (std::int64_t{across} * along == plan.world_size) return;
  given.complain("grid", "a grid of " + std::to_string(across) + " x " + std::to_string(along) +
                             " processes does not fit " + std::to_string(plan.world_size) +
                             (plan.world_size == 1 ? " rank" : " ranks") + "; these do: " + grids_of(plan.world_size));
}

void check_transports(PlanObject& given, const Plan& plan) {
  std::vector<std::string> names;
  for (const auto& entry : registry()) {
    if (entry.halos) names.emplace_back(entry.name);
  }
  for (std::size_t i = 0; i < plan.transports.size(); ++i) {
    const TransportEntry* entry = find_transport(plan.transports[i]);
    if (entry == nullptr || entry->halos) continue;
    given.complain_of_plan(PlanObject::place("transports", i),
                           "`" + plan.transports[i] + "` cannot exchange halos; these can: " + joined(names));
  }
}

constexpr double progress_every_s = 1.0;

// What a rank needs besides its field: messages (at least 2 MiB each on a device), threads, MPI, libraries.
constexpr std::uint64_t spare_bytes(MemoryKind kind) {
  return (kind == MemoryKind::device ? std::uint64_t{512} : std::uint64_t{64}) << 20;
}

class JacobiRun {
 public:
  JacobiRun(const Run& run, const JacobiOptions& options)
      : run_(run), options_(options), all_(everyone(*run.context)), grid_(options.grid, options.domain, run.job.rank) {}

  // Writes the records of the transports, and a skipped record for each whose memory is too small for the domain.
  void prepare() {
    for (const auto& name : run_.plan.transports) {
      run_.watchdog.enter("transport " + name);
      auto solve = std::make_unique<TransportSolve>(run_, all_, options_, grid_, *find_transport(name));
      const std::string reason = solve->unavailable();
      run_.records.write(transport_record(solve->entry(), reason, Json::object()));
      if (!reason.empty()) continue;
      const std::string large = too_large(solve->entry().memory);
      if (!large.empty()) run_.records.write_point(solve->skipped(large));
      else solves_.push_back(std::move(solve));
    }
  }

  // If all fields fit into memory together, the transports take turns, a batch each; otherwise each is solved alone.
  void solve_all() {
    std::map<MemoryKind, std::uint64_t> needed;
    for (const auto& solve : solves_) needed[solve->entry().memory] += needed_bytes(solve->entry().memory);
    const bool together =
        std::all_of(needed.begin(), needed.end(), [&](const auto& sum) { return sum.second <= shares_.at(sum.first); });
    if (together) return take_turns(solves_);
    for (auto& solve : solves_) take_turns({&solve, 1});
  }

 private:
  using Solves = std::span<std::unique_ptr<TransportSolve>>;

  [[nodiscard]] std::uint64_t needed_bytes(MemoryKind kind) const {
    return field_bytes(kind, options_.domain[0], options_.domain[1], options_.point_bytes());
  }

  // Why that kind of memory is too small for the domain; empty if it is not. Collective.
  [[nodiscard]] std::string too_large(MemoryKind kind) {
    if (!shares_.contains(kind)) {
      const std::uint64_t share = memory_share(*run_.context, kind, make_memory(kind).get(), all_.control.get());
      shares_[kind] = share > spare_bytes(kind) ? share - spare_bytes(kind) : 0;
    }
    const std::uint64_t share = shares_[kind];
    const std::uint64_t needed = needed_bytes(kind);
    if (needed <= share) return {};
    const auto points = static_cast<double>(share) / 2 / static_cast<double>(options_.point_bytes());
    auto most = static_cast<std::int64_t>(std::sqrt(points));
    while (most > 0 && field_bytes(kind, most, most, options_.point_bytes()) > share) --most;
    return "a domain of " + std::to_string(options_.domain[0]) + " x " + std::to_string(options_.domain[1]) +
           " points needs " + (needed == beyond_memory ? "more than 16 EiB" : in_gib(needed)) + " of " +
           (kind == MemoryKind::device ? "device " : "") + "memory on each rank, " + in_gib(share) +
           " is free: at most about " + std::to_string(most) + " x " + std::to_string(most);
  }

  void take_turns(Solves solves) {
    for (auto& solve : solves) {
      enter(*solve);
      solve->begin();
    }
    const auto going = [](const auto& solve) { return solve->going(); };
    for (std::size_t first = 0; std::any_of(solves.begin(), solves.end(), going); ++first) {
      for (std::size_t i = 0; i < solves.size(); ++i) {
        TransportSolve& solve = *solves[(first + i) % solves.size()];
        if (!solve.going()) continue;
        enter(solve);
        solve.batch();
        write_progress(solves, solve);
      }
    }
    for (auto& solve : solves) {
      enter(*solve);
      run_.records.write_point(solve->finish(solves.size() > 1));
    }
  }

  void enter(const TransportSolve& solve) { run_.watchdog.enter("transport " + solve.entry().name); }

  // Without records of progress a long solve looks like a hang.
  void write_progress(Solves solves, const TransportSolve& solve) {
    if (seconds_since(written_) < progress_every_s) return;
    written_ = Clock::now();
    double left_s = 0;
    for (const auto& other : solves) left_s += other->left_s();
    run_.records.write({{"record", "jacobi_progress"},
                        {"version", record_version},
                        {"transport", solve.entry().name},
                        {"iterations", solve.iterations()},
                        {"elapsed_s", run_.records.elapsed_s()},
                        {"left_s", left_s}});
  }

  const Run& run_;
  const JacobiOptions& options_;
  RankGroup all_;
  Grid grid_;
  std::map<MemoryKind, std::uint64_t> shares_;  // bytes that each rank may take for its fields
  std::vector<std::unique_ptr<TransportSolve>> solves_;
  Clock::time_point written_ = Clock::now();
};

class JacobiBenchmark final : public Benchmark {
 public:
  void read(PlanObject& options, const Plan& plan) override { read_options(options, plan, options_); }

  Exit run(const Run& run) override {
    JacobiRun jacobi(run, options_);
    jacobi.prepare();
    jacobi.solve_all();
    return Exit::good;
  }

 private:
  JacobiOptions options_;
};

}  // namespace

void read_options(PlanObject& given, const Plan& plan, JacobiOptions& options) {
  given.two("grid", options.grid, 1);
  given.two("domain", options.domain, std::int64_t{3});
  given.choice("precision", options.single_precision, {{"double", false}, {"float", true}});
  given.integer("iterations", options.iterations, std::uint64_t{1});
  given.positive("tolerance", options.tolerance);
  given.integer("check_every", options.check_every, std::uint64_t{1});
  given.boolean("overlap", options.overlap);
  given.integer("threads", options.threads, 1, max_threads);
  check_grid(given, plan, options);
  check_transports(given, plan);
}

}  // namespace volley::jacobi

namespace volley {

std::unique_ptr<Benchmark> make_jacobi() { return std::make_unique<jacobi::JacobiBenchmark>(); }

}  // namespace volley
