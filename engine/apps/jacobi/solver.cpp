#include "jacobi/solver.hpp"

#include "jacobi/host_solver.hpp"
#include "measure/timing_loop.hpp"

namespace volley::jacobi {

Solver::Solver(const Context& context, const JacobiOptions& options, const Grid& grid, Halos& halos)
    : options_(options),
      grid_(grid),
      halos_(halos),
      residuals_(options),
      world_(Communicator::duplicate(context.world.get())) {}

void Solver::reduce(std::uint64_t iteration, std::uint64_t bits) {
  parts_.reduction_s +=
      timed([&] { VOLLEY_MPI(MPI_Allreduce(MPI_IN_PLACE, &bits, 1, MPI_UINT64_T, MPI_MAX, world_.get())); });
  residuals_.take(iteration, bits);
}

std::unique_ptr<Solver> make_host_solver(const Context& context, const JacobiOptions& options, const Grid& grid,
                                         Halos& halos) {
  if (options.single_precision) return std::make_unique<HostSolver<float>>(context, options, grid, halos);
  return std::make_unique<HostSolver<double>>(context, options, grid, halos);
}

}  // namespace volley::jacobi
