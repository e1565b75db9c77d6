#include "benchmark/rank_matrix/rank_matrix.hpp"

#include <algorithm>
#include <array>

#include "benchmark/rank_matrix/matrix_writer.hpp"
#include "benchmark/rank_matrix/pair_measurement.hpp"
#include "group/backoff_wait.hpp"
#include "group/round_robin.hpp"
#include "mpi/text.hpp"

namespace volley {

namespace {

constexpr int order_tag = 40;
constexpr int result_tag = 41;

using RankPair = std::array<int, 2>;
constexpr RankPair nobody{-1, -1};  // the order that ends the work

// What all parts of a matrix need.
struct Work {
  const Context& context;
  const Plan& plan;
  Records& records;
  Watchdog& watchdog;
  const std::vector<MatrixCase> cases;
  const BackoffWait backoff;
};

// ------------------------------------------------------------------------------------------ one pair at a time

// The pairs in the order of their rows: a row is complete, and written, before the next one begins.
std::vector<RankPair> pairs_of(const Work& work) {
  if (!work.plan.matrix.pairs.empty()) return work.plan.matrix.pairs;
  std::vector<RankPair> pairs;
  for (int first = 0; first < work.context.size; ++first) {
    for (int second = 0; second < work.context.size; ++second) {
      if (first != second) pairs.push_back({first, second});
    }
  }
  return pairs;
}

Json meet(Work& work, const RankPair& ends) {
  work.watchdog.enter("finding out which transports ranks " + std::to_string(ends[0]) + " and " +
                      std::to_string(ends[1]) + " can use");
  return PairMeasurement(work.context, work.plan, work.cases, ends[0], ends[1], work.watchdog).isolated();
}

void send_order(const Work& work, const RankPair& ends, int rank) {
  VOLLEY_MPI(MPI_Send(ends.data(), 2, MPI_INT, rank, order_tag, work.context.world.get()));
}

// The first rank has a pair measured, itself among them or not.
Json result_of(Work& work, const RankPair& ends) {
  if (budget_used(work.plan, work.records)) {
    return skipped_result(work.plan, work.cases, ends[1], budget_reason(work.plan));
  }
  for (const int rank : ends) {
    if (rank != 0) send_order(work, ends, rank);
  }
  const Json mine = ends[0] == 0 || ends[1] == 0 ? meet(work, ends) : Json();
  if (ends[0] == 0) return mine;
  work.watchdog.enter("waiting for the result of ranks " + std::to_string(ends[0]) + " and " + std::to_string(ends[1]));
  return json_from(work.backoff.receive(ends[0], result_tag));
}

void conduct(Work& work) {
  const auto pairs = pairs_of(work);
  MatrixWriter rows(work.plan, work.cases, work.records);
  for (int repeat = 0; repeat < work.plan.matrix.repeats; ++repeat) {
    for (const auto& ends : pairs) rows.expect(ends[0]);
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      // Another pair goes first in every repeat: a drift of the machine meets all alike.
      const RankPair& ends = pairs[(i + static_cast<std::size_t>(repeat)) % pairs.size()];
      rows.add(ends[0], repeat, result_of(work, ends));
    }
  }
  for (int rank = 1; rank < work.context.size; ++rank) send_order(work, nobody, rank);
}

void follow(Work& work) {
  while (true) {
    work.watchdog.enter("waiting for its turn");
    work.backoff.await(0, order_tag);
    RankPair ends{};
    VOLLEY_MPI(MPI_Recv(ends.data(), 2, MPI_INT, 0, order_tag, work.context.world.get(), MPI_STATUS_IGNORE));
    if (ends == nobody) return;
    const Json result = meet(work, ends);
    if (ends[0] == work.context.rank) send_text(line_of(result), 0, result_tag, work.context.world.get());
  }
}

// ----------------------------------------------------------------------------------------- all ranks at once

// Half of a round of the tournament: the lower rank of each pair is the first, or the higher one.
struct Half {
  int round;
  bool back;
  [[nodiscard]] RankPair ends(int ranks, int rank) const {  // of this rank's pair; nobody where it rests
    const int other = partner_of(ranks, round, rank);
    if (other < 0) return nobody;
    const auto [low, high] = std::minmax(rank, other);
    return back ? RankPair{high, low} : RankPair{low, high};
  }
};

// All halves, or those in which one of the plan's pairs plays: the others then load the machine as they did before.
std::vector<Half> halves_of(const Work& work) {
  const auto& pairs = work.plan.matrix.pairs;
  std::vector<Half> halves;
  for (int round = 0; round < rounds_of(work.context.size); ++round) {
    for (const bool back : {false, true}) {
      const Half half{round, back};
      const auto plays = [&](const RankPair& ends) { return half.ends(work.context.size, ends[0]) == ends; };
      if (pairs.empty() || std::any_of(pairs.begin(), pairs.end(), plays)) halves.push_back(half);
    }
  }
  return halves;
}

Json play(Work& work, const RankPair& ends) {
  if (ends == nobody) {
    work.watchdog.enter("resting while the others measure");
    idle_round(work.plan, work.cases, work.backoff);
    return {};
  }
  work.watchdog.enter("a round in which it meets rank " +
                      std::to_string(ends[0] == work.context.rank ? ends[1] : ends[0]));
  return PairMeasurement(work.context, work.plan, work.cases, ends[0], ends[1], work.watchdog)
      .loaded(work.context, work.backoff);
}

// The first rank takes the results of every pair; the first of each pair sends its own.
void collect(Work& work, const Half& half, int repeat, const Json& mine, bool over, MatrixWriter& rows) {
  const int size = work.context.size;
  const RankPair own = half.ends(size, work.context.rank);
  if (work.context.rank != 0) {
    if (own[0] == work.context.rank && !over) send_text(line_of(mine), 0, result_tag, work.context.world.get());
    return;
  }
  for (int rank = 0; rank < size; ++rank) {
    const RankPair ends = half.ends(size, rank);
    if (ends[0] != rank) continue;
    if (over) rows.add(rank, repeat, skipped_result(work.plan, work.cases, ends[1], budget_reason(work.plan)));
    else rows.add(rank, repeat, rank == 0 ? mine : json_from(work.backoff.receive(rank, result_tag)));
  }
}

void round_robin(Work& work) {
  const auto halves = halves_of(work);
  const int size = work.context.size;
  MatrixWriter rows(work.plan, work.cases, work.records);  // stays empty on every rank but the first
  for (int repeat = 0; repeat < work.plan.matrix.repeats; ++repeat) {
    if (work.context.rank == 0) {
      for (const auto& half : halves) {
        for (int rank = 0; rank < size; ++rank) {
          if (half.ends(size, rank)[0] == rank) rows.expect(rank);
        }
      }
    }
    for (const auto& half : halves) {
      const bool mine_to_say = work.context.rank == 0 && budget_used(work.plan, work.records);
      const bool over = mpi::broadcast_value(mine_to_say, 0, work.context.world.get());
      const Json mine = over ? Json() : play(work, half.ends(size, work.context.rank));
      collect(work, half, repeat, mine, over, rows);
    }
  }
}

}  // namespace

void run_matrix(const Context& context, const Plan& plan, Records& records, Watchdog& watchdog) {
  Work work{context, plan, records, watchdog, cases_of(plan), BackoffWait(context, watchdog)};
  if (plan.matrix.loaded) round_robin(work);
  else if (context.rank == 0) conduct(work);
  else follow(work);
}

}  // namespace volley
