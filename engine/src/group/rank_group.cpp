#include "group/rank_group.hpp"

#include <algorithm>
#include <numeric>

#include "mpi/check.hpp"

namespace volley {

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
  group.data = Communicator(all);
  group.control = Communicator::duplicate(all);
  group.ranks = ranks;
  group.self = static_cast<int>(self - ranks.begin());
  return group;
}

RankGroup everyone(const Context& context) {
  std::vector<int> ranks(static_cast<std::size_t>(context.size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return *make_group(context, ranks);
}

}  // namespace volley
