#include <algorithm>
#include <numeric>

#include "group/context.hpp"
#include "machine/launch_environment.hpp"

namespace volley {
namespace {

// Checks the placement and, where that waits for MPI, chooses the device. Returns the usage error, or an empty text.
std::string finish_placement(const Options& options, const Context& context, Placement& placement) {
  try {
    if (placement.problem) std::rethrow_exception(placement.problem);
    // A setting may hide the ranks of a host from each other (MPIR_CVAR_NOLOCAL): then the launcher knows better.
    const bool knows = context.local_size > 1;
    if (knows && placement.local_rank && options.bind && context.local_rank != *placement.local_rank) {
      throw UsageError("the launcher's variables say that this process is local rank " +
                       std::to_string(*placement.local_rank) + ", but MPI says " + std::to_string(context.local_rank) +
                       ": start it without --bind");
    }
    if (!placement.local_rank || options.gpu_after_init) {
      const Binding wide(placement.cpus.libraries);
      choose_device(placement, options, context.local_rank);
      placement.device_chosen_late = placement.device.has_value();
    }
  } catch (const UsageError& error) {
    return error.what();
  }
  return {};
}

// Each process is a job of its own where the launcher starts them for another MPI.
void check_launcher(const Options& options, const Context& context) {
  const bool several = options.follower || launch_environment().world_size.value_or(1) > 1;
  if (context.size > 1 || !several) return;
  throw AgreedUsageError(
      "this process is a job of one rank, but its launcher started several: the launcher does not belong to " +
      options.mpi_library +
      ", with which this engine runs; use the mpirun of that MPI, or an "
      "`srun --mpi=` type that it supports (pmix for Open MPI 5, pmi2 for MPICH)");
}

}  // namespace

Context make_context(const Options& options, Placement placement) {
  Context context;
  context.world = Communicator::duplicate(MPI_COMM_WORLD);
  context.rank = context.world.rank();
  context.size = context.world.size();
  check_launcher(options, context);
  context.gpus = placement.gpus;
  // Several threads that call MPI bind themselves to the others of these.
  const auto& measuring = placement.cpus.measuring;
  if (placement.bound) bind_to_cpus(options.threads ? std::vector{measuring.front()} : measuring);
  else placement.cpus = unbound_cpus();  // an MPI may bind its ranks in MPI_Init
  context.cpus = placement.cpus;
  const Communicator node = Communicator::node_of(context.world.get());
  context.local_rank = node.rank();
  context.local_size = node.size();
  const auto errors = mpi::all_gather(finish_placement(options, context, placement), context.world.get());
  const auto error = std::ranges::find_if_not(errors, &std::string::empty);
  if (error != errors.end()) {
    throw AgreedUsageError("rank " + std::to_string(error - errors.begin()) + ": " + *error);
  }

  // Nodes are numbered in the order of their first ranks.
  const int first = mpi::broadcast_value(context.rank, 0, node.get());
  std::vector<int> first_of(static_cast<std::size_t>(context.size));
  VOLLEY_MPI(MPI_Allgather(&first, 1, MPI_INT, first_of.data(), 1, MPI_INT, context.world.get()));
  int nodes = 0;
  for (const int each : first_of) {
    const bool is_new = each == static_cast<int>(context.node_of.size());
    context.node_of.push_back(is_new ? nodes++ : context.node(each));
  }
  const std::string mine = own_facts(context, placement).text();
  for (const auto& text : mpi::all_gather(mine, node.get())) context.neighbours.push_back(facts_in(text));
  std::vector<RankFacts> all;  // on the first rank only: up to 7 kB of each, and of its record
  for (auto& text : mpi::gather(mine, context.world.get())) {
    all.push_back(facts_in(text));
    context.records.push_back(Json::written(std::move(text)));
  }
  const auto problem = mpi::broadcast(shared_core(all), 0, context.world.get());
  if (!problem.empty()) throw AgreedUsageError(problem);
  context.take_places(all);
  context.gpu_of.resize(first_of.size());
  VOLLEY_MPI(MPI_Bcast(context.gpu_of.data(), context.size, MPI_INT, 0, context.world.get()));
  const auto hosts = mpi::broadcast(joined(context.hosts, "\n"), 0, context.world.get());
  const auto names = split(hosts, '\n');
  context.hosts = {names.begin(), names.end()};
  return context;
}

Communicator make_communicator(const Context& context, const std::vector<int>& ranks) {
  constexpr int tag = 50;
  MPI_Group world = MPI_GROUP_NULL;
  MPI_Group chosen = MPI_GROUP_NULL;
  VOLLEY_MPI(MPI_Comm_group(context.world.get(), &world));
  VOLLEY_MPI(MPI_Group_incl(world, static_cast<int>(ranks.size()), ranks.data(), &chosen));
  MPI_Comm all = MPI_COMM_NULL;
  VOLLEY_MPI(MPI_Comm_create_group(context.world.get(), chosen, tag, &all));
  VOLLEY_MPI(MPI_Group_free(&chosen));
  VOLLEY_MPI(MPI_Group_free(&world));
  return Communicator(all);
}

std::optional<RankGroup> make_group(const Context& context, const std::vector<int>& ranks) {
  const auto self = std::find(ranks.begin(), ranks.end(), context.rank);
  if (self == ranks.end()) return std::nullopt;
  RankGroup group;
  group.data = make_communicator(context, ranks);
  group.control = Communicator::duplicate(group.data.get());
  group.ranks = ranks;
  group.name = context.name_of(ranks);
  group.shares_core = context.cpus.shared();
  group.self = static_cast<int>(self - ranks.begin());
  return group;
}

void RankGroup::make_ring() {
  const int number = size();
  constexpr int periodic = 1;
  MPI_Comm made = MPI_COMM_NULL;
  VOLLEY_MPI(MPI_Cart_create(data.get(), 1, &number, &periodic, /*reorder*/ 0, &made));
  ring = Communicator(made);
}

RankGroup everyone(const Context& context) {
  std::vector<int> ranks(static_cast<std::size_t>(context.size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return *make_group(context, ranks);
}

}  // namespace volley
