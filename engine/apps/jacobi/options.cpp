#include "jacobi/options.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "transport/registry.hpp"

namespace volley::jacobi {

namespace {

// More than any machine has cores. A barrier takes memory for each thread.
constexpr int max_threads = 1 << 16;

// All grids of so many processes: "1 x 6, 2 x 3, 3 x 2, 6 x 1".
std::string grids_of(std::int64_t ranks) {
  std::vector<std::int64_t> divisors;
  for (std::int64_t divisor = 1; divisor * divisor <= ranks; ++divisor) {
    if (ranks % divisor != 0) continue;
    divisors.push_back(divisor);
    if (divisor * divisor != ranks) divisors.push_back(ranks / divisor);
  }
  std::sort(divisors.begin(), divisors.end());
  std::vector<std::string> grids;
  for (const auto across : divisors) grids.push_back(std::to_string(across) + " x " + std::to_string(ranks / across));
  return joined(grids);
}

void check_grid(PlanObject& given, const Plan& plan, const JacobiOptions& options) {
  const auto [across, along] = options.grid;
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

}  // namespace

void read_options(PlanObject& given, const Plan& plan, JacobiOptions& options) {
  given.two("grid", options.grid, 1);
  given.two("domain", options.domain, std::int64_t{3});
  given.choice("precision", options.single_precision, {{"double", false}, {"float", true}});
  given.integer("iterations", options.iterations, std::uint64_t{1});
  given.positive("tolerance", options.tolerance);
  given.integer("check_every", options.check_every, std::uint64_t{1});
  given.boolean("overlap", options.overlap);
  given.optional_integer("threads", options.threads, 1, max_threads);
  check_grid(given, plan, options);
  check_transports(given, plan);
}

}  // namespace volley::jacobi
