// The benchmark `rank_matrix`: every ordered pair of ranks, one pair at a time, one of each node, or all ranks at once.
// Each rank makes the lines of the rows in which it is the first of the pairs; the first rank of all writes them.
#include <numeric>
#include <tuple>

#include "benchmark/rank_matrix/matrix_rows.hpp"
#include "group/backoff_wait.hpp"
#include "group/group_control.hpp"
#include "group/round_robin.hpp"
#include "measure/sampler.hpp"

namespace volley {
namespace {

// The result of a pair that is not measured.
PairResult skipped_result(std::size_t cells, int second, const std::string& reason) {
  Series series;
  series.skipped = reason;
  return {second, {}, std::vector<Series>(cells, series)};
}

// Everything that the plan asks for, between two ranks.
class PairMeasurement {
 public:
  PairMeasurement(const Run& run, const std::vector<MatrixCase>& cases, const RankPair& ranks)
      : run_(run),
        cases_(cases),
        pair_(*make_group(*run.context, {ranks[0], ranks[1]})),
        control_(pair_),
        transports_(*run.context, pair_, run.plan, run.watchdog) {
    std::vector<std::uint64_t> sizes;
    for (const auto& matrix_case : cases) sizes.push_back(matrix_case.bytes);
    transports_.open(sizes);
  }

  // Measures every case while no other pair measures. Collective over the two; complete on the first rank.
  [[nodiscard]] PairResult isolated() {
    std::vector<Series> measured;
    for (const auto& matrix_case : cases_) {
      auto all = series_of(matrix_case);
      Sampler(control_, run_.plan.sampling, matrix_case.workload, run_.watchdog).measure(all);
      std::ranges::move(all, std::back_inserter(measured));
    }
    return finished(std::move(measured));
  }

  // Measures every case while all other pairs of the round do the same. All pairs begin a transport of a case together;
  // a pair that has finished continues without recording until all have finished. Collective over the world: a rank
  // without a partner takes part in the barriers.
  [[nodiscard]] PairResult loaded(const BackoffWait& backoff) {
    std::vector<Series> measured;
    for (const auto& matrix_case : cases_) {
      for (auto& series : series_of(matrix_case)) {  // one transport at a time, the same on all pairs
        std::vector<Series> alone{std::move(series)};
        backoff.start_together();
        Sampler sampler(control_, run_.plan.sampling, matrix_case.workload, run_.watchdog);
        sampler.sample(alone);
        MPI_Request all_done = MPI_REQUEST_NULL;
        VOLLEY_MPI(MPI_Ibarrier(run_.context->world.get(), &all_done));
        keep_busy(matrix_case.workload, alone[0], all_done, backoff);
        sampler.verify(alone);  // when no pair samples any more
        measured.push_back(std::move(alone[0]));
      }
    }
    return finished(std::move(measured));
  }

 private:
  [[nodiscard]] std::vector<Series> series_of(const MatrixCase& matrix_case) {
    std::vector<Series> all;
    for (const auto& candidate : transports_.candidates()) {
      all.push_back(transports_.series(candidate, matrix_case.bytes, run_.plan.verify, matrix_case.workload.window));
    }
    return all;
  }

  // Exchanges further messages until all pairs have finished, as the first rank tells the second one before each batch.
  void keep_busy(const Workload& workload, Series& series, MPI_Request& all_done, const BackoffWait& backoff) {
    while (series.count > 0) {
      int done = 0;
      if (pair_.leads()) VOLLEY_MPI(MPI_Test(&all_done, &done, MPI_STATUS_IGNORE));
      if (mpi::broadcast_value(done, 0, pair_.control.get()) != 0) break;
      run_.watchdog.progress(10 * series.count_s * static_cast<double>(series.count));
      std::ignore = series.driver->batch(series.view, series.count, workload.window);
    }
    backoff.wait(all_done);
  }

  [[nodiscard]] PairResult finished(std::vector<Series> series) {
    PairResult result{.second = pair_.rank(1), .transports = {}, .series = std::move(series)};
    for (const auto& each : transports_.candidates()) {
      result.transports.push_back((each.reason.empty() ? '+' : '-') +
                                  transport_record(*each.entry, each.reason, each.facts()).text());
    }
    transports_.close();
    return result;
  }

  const Run& run_;
  const std::vector<MatrixCase>& cases_;
  RankGroup pair_;
  MpiControl control_;
  TransportSet transports_;
};

constexpr int turn_tag = 40;
constexpr int result_tag = 41;
constexpr int pairs_tag = 42;

// The pair of this rank in each round. Only the first rank has the rounds: 16,384 ranks have 160,000 pairs in 20
// rounds.
std::vector<RankPair> own_pairs(const Context& context, const std::vector<std::vector<RankPair>>& rounds) {
  std::vector<RankPair> own(mpi::broadcast_value(rounds.size(), 0, context.world.get()), nobody);
  if (own.empty()) return own;
  const auto bytes = static_cast<int>(own.size() * sizeof own[0]);
  if (context.rank != 0) {
    VOLLEY_MPI(MPI_Recv(own.data(), bytes, MPI_BYTE, 0, pairs_tag, context.world.get(), MPI_STATUS_IGNORE));
    return own;
  }
  std::vector<std::vector<RankPair>> of(static_cast<std::size_t>(context.size), own);
  for (std::size_t round = 0; round < rounds.size(); ++round) {
    for (const auto& pair : rounds[round]) {
      for (const int rank : pair) of[static_cast<std::size_t>(rank)][round] = pair;
    }
  }
  for (int rank = 1; rank < context.size; ++rank) {
    const auto& those = of[static_cast<std::size_t>(rank)];
    VOLLEY_MPI(MPI_Send(those.data(), bytes, MPI_BYTE, rank, pairs_tag, context.world.get()));
  }
  return of[0];
}

// A matrix, as each rank takes part in it.
struct MatrixRun {
  const Run& run;
  const Context& context;
  const RankMatrixOptions& options;
  const std::vector<MatrixCase> cases;
  const BackoffWait backoff;
  bool transports_written = false;
  [[nodiscard]] std::size_t cells() const { return cases.size() * run.plan.transports.size(); }  // of a pair

  // --- one pair at a time ---

  // The second ranks of a row's pairs.
  std::vector<int> seconds_of(int first) const {
    std::vector<int> seconds;
    for (const auto& [one, two] : options.pairs) {
      if (one == first) seconds.push_back(two);
    }
    for (int rank = 0; options.pairs.empty() && rank < context.size; ++rank) {
      if (rank != first) seconds.push_back(rank);
    }
    return seconds;
  }

  PairResult measure_pair(const RankPair& ends) {
    run.watchdog.enter("checking which transports " + context.name_of({ends[0], ends[1]}) + " can use");
    return PairMeasurement(run, cases, ends).isolated();
  }

  // The first rank of a row tells each second one when its turn has come, or why it is skipped.
  void measure_row(int first, int repeat, MatrixRows& rows) {
    for (const int second : seconds_of(first)) {
      if (context.rank == first) {
        const std::string skipped = budget_left_s(run.plan, run.records) < 0 ? budget_reason : "";
        send_text(skipped, second, turn_tag, context.world.get());
        rows.add(first, repeat,
                 skipped.empty() ? measure_pair({first, second}) : skipped_result(cells(), second, skipped));
      } else if (context.rank == second) {
        run.watchdog.enter("waiting for its turn");
        if (backoff.receive(first, turn_tag).empty()) static_cast<void>(measure_pair({first, second}));
      }
    }
    run.watchdog.enter("waiting while other ranks measure");
    backoff.barrier();
  }

  // A row is complete, and written, before the next one begins.
  void measure_rows() {
    std::vector<int> firsts;
    for (const auto& ends : options.pairs) {
      if (std::ranges::count(firsts, ends[0]) == 0) firsts.push_back(ends[0]);
    }
    for (int rank = 0; options.pairs.empty() && rank < context.size; ++rank) firsts.push_back(rank);
    MatrixRows rows(run, options, cases, [&](int first) { return static_cast<int>(seconds_of(first).size()); }, true);
    for (int repeat = 0; repeat < options.repeats; ++repeat) {
      const bool used_up = repeat > 0 && budget_left_s(run.plan, run.records) < 0;
      if (mpi::broadcast_value(used_up, 0, context.world.get())) break;  // every pair has a result already
      for (const int first : firsts) {
        measure_row(first, repeat, rows);
        collect(rows);
      }
      // Each repeat begins with another row: a drift of the machine affects all pairs equally.
      std::rotate(firsts.begin(), firsts.begin() + 1, firsts.end());
    }
  }

  // --- many pairs at once ---

  // The pair of this rank in each round of the round robin. If the plan names pairs, only in the rounds in which one of
  // them meets; the other pairs of such a round load the machine as in a complete matrix.
  std::vector<RankPair> round_robin() {
    std::vector<RankPair> own;
    std::vector<int> alone(static_cast<std::size_t>(context.size));
    std::iota(alone.begin(), alone.end(), 0);
    const Parties parties(options.mode == MatrixMode::nodes ? context.node_of : alone);
    for (const auto& round : all_rounds_of(parties)) {
      const auto meets = [&](const RankPair& ends) { return round.ends(parties, ends[0]) == ends; };
      if (!options.pairs.empty() && std::ranges::none_of(options.pairs, meets)) continue;
      own.push_back(round.ends(parties, context.rank));
    }
    return own;
  }

  PairResult measure_round(const RankPair& ends) {
    if (ends == nobody) {
      run.watchdog.enter("waiting while other ranks measure");
      for (std::size_t i = 0; i < cells(); ++i) {
        backoff.start_together();  // the pairs begin
        backoff.barrier();         // all pairs have finished
      }
      return {};
    }
    run.watchdog.enter("a round of measurements of " + context.name_of({ends[0], ends[1]}));
    return PairMeasurement(run, cases, ends).loaded(backoff);
  }

  // Writes the complete rows of all ranks. They are sent as lines: read by the first rank, the results would take it
  // 20 µs each, 30 s of a check of 16,384 ranks. Collective over the world.
  void collect(MatrixRows& rows) {
    run.watchdog.enter("collecting the results");
    MatrixLines mine = rows.take();
    // A transport is available if a pair can use it, of those that were measured before the first row.
    if (!std::exchange(transports_written, true)) {
      for (const auto& known : mpi::gather(joined(rows.known(), "\n"), context.world.get())) {
        const auto lines = split(known, '\n');
        rows.learn({lines.begin(), lines.end()});
      }
      for (const auto& each : rows.known()) run.records.write_lines(each.substr(each.empty() ? 0 : 1));
    }
    VOLLEY_MPI(MPI_Allreduce(MPI_IN_PLACE, mine.counts.data(), static_cast<int>(mine.counts.size()), MPI_INT, MPI_SUM,
                             context.world.get()));
    run.records.write_lines(mine.text);
    for (std::size_t i = 0; i < mine.counts.size(); ++i) {
      run.records.add_points(MatrixLines::statuses[i], mine.counts[i]);
    }
    if (context.rank != 0) {
      MPI_Request sent = MPI_REQUEST_NULL;
      VOLLEY_MPI(MPI_Isend(mine.text.data(), static_cast<int>(mine.text.size()), MPI_CHAR, 0, result_tag,
                           context.world.get(), &sent));
      backoff.wait(sent);
      return;
    }
    for (int rank = 1; rank < context.size; ++rank) run.records.write_lines(backoff.receive(rank, result_tag));
  }

  void measure_rounds() {
    std::vector<RankPair> own = own_pairs(context, options.rounds);
    const bool named = !own.empty();
    if (!named) own = round_robin();
    const auto results_of = [&](int first) {
      return static_cast<int>(std::ranges::count(own, first, [](const RankPair& ends) { return ends[0]; }));
    };
    MatrixRows rows(run, options, cases, results_of, !named);
    bool out_of_time = false;
    for (int repeat = 0; repeat < options.repeats && !out_of_time; ++repeat) {
      for (const auto& ends : own) {
        const bool used_up = context.rank == 0 && budget_left_s(run.plan, run.records) < 0;
        out_of_time = mpi::broadcast_value(used_up, 0, context.world.get());
        const PairResult mine = out_of_time ? PairResult{} : measure_round(ends);
        if (ends[0] != context.rank) continue;
        rows.add(ends[0], repeat, out_of_time ? skipped_result(cells(), ends[1], budget_reason) : mine);
      }
      collect(rows);
    }
  }
};

std::vector<MatrixCase> cases_of(const RankMatrixOptions& options) {
  std::vector<MatrixCase> cases;
  for (const auto bytes : options.latency_sizes_bytes) cases.push_back({round_trip_workload(), bytes});
  for (const auto bytes : options.bandwidth_sizes_bytes) cases.push_back({window_workload(options.window), bytes});
  return cases;
}

void refuse_strangers(PlanObject& options, const char* key, const std::vector<RankPair>& pairs, int ranks) {
  for (const auto& [first, second] : pairs) {
    if (std::max(first, second) < ranks) continue;
    options.complain(key,
                     "there is no rank " + std::to_string(std::max(first, second)) + " among " + std::to_string(ranks));
  }
}

class RankMatrix final : public Benchmark {
 public:
  void read(PlanObject& options, const Plan& plan) override {
    options.choice("mode", options_.mode, matrix_modes);
    options.sizes("latency_sizes_bytes", options_.latency_sizes_bytes);
    options.sizes("bandwidth_sizes_bytes", options_.bandwidth_sizes_bytes);
    read_window(options, options_.window);
    options.pairs("pairs", options_.pairs);
    options.rounds("rounds", options_.rounds);
    options.integer("repeats", options_.repeats, 1);
    options.boolean("samples", options_.samples);
    if (plan.world_size < 2) options.complain_of_plan("world_size", "a matrix needs at least 2 ranks, found 1");
    if (options_.latency_sizes_bytes.empty() && options_.bandwidth_sizes_bytes.empty()) {
      options.complain("", "expected at least one size in `latency_sizes_bytes` or `bandwidth_sizes_bytes`");
    }
    refuse_strangers(options, "pairs", options_.pairs, plan.world_size);
    for (const auto& round : options_.rounds) refuse_strangers(options, "rounds", round, plan.world_size);
    if (!options_.rounds.empty() && (options_.mode != MatrixMode::loaded || !options_.pairs.empty())) {
      options.complain("rounds", "needs the mode `loaded`, without `pairs`");
    }
  }

  [[nodiscard]] std::string for_other_ranks(const std::string& plan) const override {
    return options_.rounds.empty() ? plan : without_option(plan, "rounds");
  }

  Exit run(const Run& run) override {
    const Context& context = *run.context;
    MatrixRun matrix{run, context, options_, cases_of(options_), BackoffWait(context, run.watchdog)};
    if (options_.mode == MatrixMode::isolated) matrix.measure_rows();
    else matrix.measure_rounds();
    return Exit::good;
  }

 private:
  RankMatrixOptions options_;
};

}  // namespace

std::unique_ptr<Benchmark> make_rank_matrix() { return std::make_unique<RankMatrix>(); }

}  // namespace volley
