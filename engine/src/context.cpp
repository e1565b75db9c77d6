#include "context.hpp"

#include <algorithm>

#include "placement.hpp"
#include "record/facts.hpp"
#include "wire.hpp"

namespace volley {

namespace {

// Nodes are numbered by the first rank on each; every rank learns its node's leader and looks it up.
int node_number(const Context& context, int node_leader) {
  const auto count = static_cast<std::size_t>(context.size);
  std::vector<int> leaders(count);
  VOLLEY_MPI(MPI_Allgather(&node_leader, 1, MPI_INT, leaders.data(), 1, MPI_INT, context.world.get()));
  std::sort(leaders.begin(), leaders.end());
  leaders.erase(std::unique(leaders.begin(), leaders.end()), leaders.end());
  return static_cast<int>(std::lower_bound(leaders.begin(), leaders.end(), node_leader) - leaders.begin());
}

// `self`: 0 for the first of the two, 1 for the second.
Pair pair_over(MPI_Comm both, int first, int second, int self) {
  Pair pair;
  pair.data = Communicator(both);
  // An error in a message is reported by the call, so that it can be named before the job ends.
  VOLLEY_MPI(MPI_Comm_set_errhandler(pair.data.get(), MPI_ERRORS_RETURN));
  pair.control = Communicator::duplicate(both);
  pair.ranks = {first, second};
  pair.self = self;
  pair.peer = 1 - self;
  return pair;
}

}  // namespace

Context make_context(const Options& options, const Placement& placement) {
  if (!placement.refusal.empty()) throw Refusal(placement.refusal);
  Context context;
  context.world = Communicator::duplicate(MPI_COMM_WORLD);
  context.rank = context.world.rank();
  context.size = context.world.size();
  context.gpus = placement.gpus;
  const Communicator node = Communicator::node_of(context.world.get());
  context.local_rank = node.rank();
  context.local_size = node.size();
  if (options.bind && context.local_rank != placement.local_rank) {
    throw Refusal("the launcher's variables call this process local rank " + std::to_string(placement.local_rank) +
                  ", MPI says " + std::to_string(context.local_rank) + ": start it without --bind");
  }

  const int number = node_number(context, wire::broadcast_value(context.rank, 0, node.get()));
  const RankFacts facts = facts_of(context, placement, number);
  for (const auto& text : wire::all_gather(line_of(to_json(facts)), context.world.get())) {
    context.ranks.push_back(rank_from_json(json_from(text)));
  }
  return context;
}

std::optional<Pair> make_pair(const Context& context, int first, int second) {
  const bool member = context.rank == first || context.rank == second;
  return join_pair(context, member ? std::optional(std::array{first, second}) : std::nullopt);
}

std::optional<Pair> join_pair(const Context& context, const std::optional<std::array<int, 2>>& ranks) {
  const int key = ranks && context.rank != (*ranks)[0] ? 1 : 0;
  MPI_Comm both = MPI_COMM_NULL;
  VOLLEY_MPI(MPI_Comm_split(context.world.get(), ranks ? (*ranks)[0] : MPI_UNDEFINED, key, &both));
  if (!ranks) return std::nullopt;
  return pair_over(both, (*ranks)[0], (*ranks)[1], key);
}

Pair make_pair_alone(const Context& context, int first, int second) {
  constexpr int tag = 50;
  const std::array<int, 2> ranks{first, second};
  MPI_Group world = MPI_GROUP_NULL;
  MPI_Group two = MPI_GROUP_NULL;
  VOLLEY_MPI(MPI_Comm_group(context.world.get(), &world));
  VOLLEY_MPI(MPI_Group_incl(world, 2, ranks.data(), &two));
  MPI_Comm both = MPI_COMM_NULL;
  VOLLEY_MPI(MPI_Comm_create_group(context.world.get(), two, tag, &both));
  VOLLEY_MPI(MPI_Group_free(&two));
  VOLLEY_MPI(MPI_Group_free(&world));
  return pair_over(both, first, second, context.rank == first ? 0 : 1);
}

}  // namespace volley
