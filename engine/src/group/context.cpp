#include "group/context.hpp"

#include <algorithm>

#include "group/run_record.hpp"
#include "host/placement.hpp"
#include "mpi/collectives.hpp"

namespace volley {

namespace {

// Nodes are numbered in the order of their first ranks.
int node_number(const Context& context, int node_leader) {
  const auto count = static_cast<std::size_t>(context.size);
  std::vector<int> leaders(count);
  VOLLEY_MPI(MPI_Allgather(&node_leader, 1, MPI_INT, leaders.data(), 1, MPI_INT, context.world.get()));
  std::sort(leaders.begin(), leaders.end());
  leaders.erase(std::unique(leaders.begin(), leaders.end()), leaders.end());
  return static_cast<int>(std::lower_bound(leaders.begin(), leaders.end(), node_leader) - leaders.begin());
}

// Calls return errors, so that the engine can name the call and end the records before the job ends.
Communicator returning_errors(Communicator communicator) {
  VOLLEY_MPI(MPI_Comm_set_errhandler(communicator.get(), MPI_ERRORS_RETURN));
  return communicator;
}

}  // namespace

Context make_context(const Options& options, Placement placement) {
  if (placement.problem) std::rethrow_exception(placement.problem);
  Context context;
  context.world = returning_errors(Communicator::duplicate(MPI_COMM_WORLD));
  context.rank = context.world.rank();
  context.size = context.world.size();
  context.gpus = placement.gpus;
  const Communicator node = Communicator::node_of(context.world.get());
  context.local_rank = node.rank();
  context.local_size = node.size();
  if (!placement.local_rank) {
    choose_device(placement, options, context.local_rank);
    placement.device_chosen_late = placement.device.has_value();
  } else if (options.bind && context.local_rank != *placement.local_rank) {
    throw UsageError("the launcher's variables call this process local rank " + std::to_string(*placement.local_rank) +
                     ", MPI says " + std::to_string(context.local_rank) + ": start it without --bind");
  }

  const int number = node_number(context, mpi::broadcast_value(context.rank, 0, node.get()));
  const RankFacts facts = own_facts(context, placement, number);
  for (const auto& text : mpi::all_gather(line_of(to_json(facts)), context.world.get())) {
    context.ranks.push_back(rank_from_json(json_from(text)));
  }
  return context;
}

std::optional<RankGroup> make_group(const Context& context, const std::vector<int>& ranks) {
  constexpr int tag = 50;
  const auto self = std::find(ranks.begin(), ranks.end(), context.rank);
  if (self == ranks.end()) return std::nullopt;
  MPI_Group world = MPI_GROUP_NULL;
  MPI_Group chosen = MPI_GROUP_NULL;
  VOLLEY_MPI(MPI_Comm_group(context.world.get(), &world));
  VOLLEY_MPI(MPI_Group_incl(world, static_cast<int>(ranks.size()), ranks.data(), &chosen));
  MPI_Comm all = MPI_COMM_NULL;
  VOLLEY_MPI(MPI_Comm_create_group(context.world.get(), chosen, tag, &all));
  VOLLEY_MPI(MPI_Group_free(&chosen));
  VOLLEY_MPI(MPI_Group_free(&world));
  RankGroup group;
  group.data = returning_errors(Communicator(all));
  group.control = returning_errors(Communicator::duplicate(all));
  group.ranks = ranks;
  group.self = static_cast<int>(self - ranks.begin());
  group.one_process = ranks.size() == 1;
  return group;
}

}  // namespace volley
