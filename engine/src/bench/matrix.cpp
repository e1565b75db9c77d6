#include "matrix.hpp"

#include <algorithm>
#include <array>

#include "../wire.hpp"
#include "encounter.hpp"
#include "patience.hpp"
#include "rows.hpp"
#include "tournament.hpp"

namespace volley {

namespace {

constexpr int order_tag = 40;
constexpr int result_tag = 41;

using Ends = std::array<int, 2>;
constexpr Ends nobody{-1, -1};  // the order that ends the work

// What all parts of a matrix need.
struct Work {
  const Context& context;
  const Plan& plan;
  Records& records;
  Watchdog& watchdog;
  const std::vector<Sheet> sheets;
  const Patience patience;
};

// ------------------------------------------------------------------------------------------ one pair at a time

// The pairs in the order of their rows: a row is complete, and written, before the next one begins.
std::vector<Ends> pairs_of(const Work& work) {
  if (!work.plan.matrix.pairs.empty()) return work.plan.matrix.pairs;
  std::vector<Ends> pairs;
  for (int first = 0; first < work.context.size; ++first) {
    for (int second = 0; second < work.context.size; ++second) {
      if (first != second) pairs.push_back({first, second});
    }
  }
  return pairs;
}

Json meet(Work& work, const Ends& ends) {
  work.watchdog.enter("finding out which transports ranks " + std::to_string(ends[0]) + " and " +
                      std::to_string(ends[1]) + " can use");
  return Encounter(work.context, work.plan, work.sheets, ends[0], ends[1], work.watchdog).isolated();
}

void send_order(const Work& work, const Ends& ends, int rank) {
  VOLLEY_MPI(MPI_Send(ends.data(), 2, MPI_INT, rank, order_tag, work.context.world.get()));
}

// The first rank has a pair measured, itself among them or not.
Json result_of(Work& work, const Ends& ends) {
  if (budget_used(work.plan, work.records)) {
    return skipped_result(work.plan, work.sheets, ends[1], budget_reason(work.plan));
  }
  for (const int rank : ends) {
    if (rank != 0) send_order(work, ends, rank);
  }
  const Json mine = ends[0] == 0 || ends[1] == 0 ? meet(work, ends) : Json();
  if (ends[0] == 0) return mine;
  work.watchdog.enter("waiting for the result of ranks " + std::to_string(ends[0]) + " and " + std::to_string(ends[1]));
  return json_from(work.patience.receive(ends[0], result_tag));
}

void conduct(Work& work) {
  const auto pairs = pairs_of(work);
  Rows rows(work.plan, work.sheets, work.records);
  for (int repeat = 0; repeat < work.plan.matrix.repeats; ++repeat) {
    for (const auto& ends : pairs) rows.expect(ends[0]);
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      // Another pair goes first in every repeat: a drift of the machine meets all alike.
      const Ends& ends = pairs[(i + static_cast<std::size_t>(repeat)) % pairs.size()];
      rows.add(ends[0], repeat, result_of(work, ends));
    }
  }
  for (int rank = 1; rank < work.context.size; ++rank) send_order(work, nobody, rank);
}

void follow(Work& work) {
  while (true) {
    work.watchdog.enter("waiting for its turn");
    work.patience.await(0, order_tag);
    Ends ends{};
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
  [[nodiscard]] Ends ends(int ranks, int rank) const {  // of this rank's pair; nobody where it rests
    const int other = opponent_of(ranks, round, rank);
    if (other < 0) return nobody;
    const auto [low, high] = std::minmax(rank, other);
    return back ? Ends{high, low} : Ends{low, high};
  }
};

// All halves, or those in which one of the plan's pairs plays: the others then load the machine as they did before.
std::vector<Half> halves_of(const Work& work) {
  const auto& pairs = work.plan.matrix.pairs;
  std::vector<Half> halves;
  for (int round = 0; round < rounds_of(work.context.size); ++round) {
    for (const bool back : {false, true}) {
      const Half half{round, back};
      const auto plays = [&](const Ends& ends) { return half.ends(work.context.size, ends[0]) == ends; };
      if (pairs.empty() || std::any_of(pairs.begin(), pairs.end(), plays)) halves.push_back(half);
    }
  }
  return halves;
}

Json play(Work& work, const Ends& ends) {
  if (ends == nobody) {
    work.watchdog.enter("resting while the others measure");
    sit_out(work.plan, work.sheets, work.patience);
    return {};
  }
  work.watchdog.enter("a round in which it meets rank " +
                      std::to_string(ends[0] == work.context.rank ? ends[1] : ends[0]));
  return Encounter(work.context, work.plan, work.sheets, ends[0], ends[1], work.watchdog)
      .loaded(work.context, work.patience);
}

// The first rank takes the results of every pair; the first of each pair sends its own.
void collect(Work& work, const Half& half, int repeat, const Json& mine, bool over, Rows& rows) {
  const int size = work.context.size;
  const Ends own = half.ends(size, work.context.rank);
  if (work.context.rank != 0) {
    if (own[0] == work.context.rank && !over) send_text(line_of(mine), 0, result_tag, work.context.world.get());
    return;
  }
  for (int rank = 0; rank < size; ++rank) {
    const Ends ends = half.ends(size, rank);
    if (ends[0] != rank) continue;
    if (over) rows.add(rank, repeat, skipped_result(work.plan, work.sheets, ends[1], budget_reason(work.plan)));
    else rows.add(rank, repeat, rank == 0 ? mine : json_from(work.patience.receive(rank, result_tag)));
  }
}

void tournament(Work& work) {
  const auto halves = halves_of(work);
  const int size = work.context.size;
  Rows rows(work.plan, work.sheets, work.records);  // stays empty on every rank but the first
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
      const bool over = wire::broadcast_value(mine_to_say, 0, work.context.world.get());
      const Json mine = over ? Json() : play(work, half.ends(size, work.context.rank));
      collect(work, half, repeat, mine, over, rows);
    }
  }
}

}  // namespace

void run_matrix(const Context& context, const Plan& plan, Records& records, Watchdog& watchdog) {
  Work work{context, plan, records, watchdog, sheets_of(plan), Patience(context, watchdog)};
  if (plan.matrix.loaded) tournament(work);
  else if (context.rank == 0) conduct(work);
  else follow(work);
}

}  // namespace volley
