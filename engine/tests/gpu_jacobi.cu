// On a GPU: its field is the CPU's bit for bit, whatever the domain's sides; a NaN anywhere is seen and found.
#include "expect.hpp"
#include "gpu/gpu.hpp"
#include "gpu/kernel_launch.cuh"
#include "gpu/runtime.hpp"
#include "jacobi/device_field.cuh"
#include "jacobi/solver.hpp"
#include "start_mpi.hpp"
#include "transport/registry.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <initializer_list>
#include <limits>

using namespace volley;
using namespace volley::jacobi;

namespace {

constexpr int nothing_to_test_on = 77;

void the_field_is_the_same(const Context& context, const JacobiOptions& options) {
  const Grid grid(options.grid, options.domain, 0);
  Halos host_halos(context, grid, *find_transport("host"), options.point_bytes());
  Halos device_halos(context, grid, *find_transport("staged/pinned"), options.point_bytes());
  const auto host = make_host_solver(context, options, grid, host_halos);
  const auto device = make_device_solver(context, options, grid, device_halos);
  EXPECT(host->hash() == device->hash());
  for (const std::uint64_t most : {std::uint64_t{1}, std::uint64_t{1}, std::uint64_t{2}, options.iterations}) {
    EXPECT(host->advance(most) == device->advance(most));
    EXPECT(host->hash() == device->hash());
  }
  EXPECT(host->iterations() == device->iterations());
  EXPECT(host->residuals().converged() == device->residuals().converged() && !device->residuals().broken());
  const auto& expected = host->residuals().kept();
  const auto& found = device->residuals().kept();
  EXPECT(expected.size() == found.size());
  for (std::size_t i = 0; i < found.size() && i < expected.size(); ++i) {
    EXPECT(expected[i].iteration == found[i].iteration && expected[i].value == found[i].value);
  }
  EXPECT(std::fabs(host->deviation() - device->deviation()) < 1e-12);
  EXPECT(!device->first_broken());
  EXPECT(device->parts().interior_s > 0);
}

void on_domains_of_all_kinds(const Context& context) {
  for (const bool single : {false, true}) {
    // nvcc 12.4 needs the type of such a list.
    for (const auto domain : std::initializer_list<std::array<std::int64_t, 2>>{
             {3, 3}, {3, 300}, {300, 3}, {64, 34}, {65, 33}, {127, 66}, {513, 200}, {1023, 97}}) {
      for (const std::uint64_t every : {1, 7}) {
        JacobiOptions options;
        options.domain = domain;
        options.single_precision = single;
        options.iterations = 60;
        options.check_every = every;
        the_field_is_the_same(context, options);
        options.tolerance = 0.01;  // ends before
        the_field_is_the_same(context, options);
      }
    }
  }
}

template <class Real>
void a_nan_anywhere_is_seen() {
  const Grid grid({1, 1}, {130, 40}, 0);
  const gpu::DeviceValues<ResidualMax> memory(1);
  ResidualMax* const residual = memory.data();
  for (const auto [x, y] :
       std::initializer_list<std::array<std::int64_t, 2>>{{0, 5}, {1, 1}, {64, 39}, {63, 20}, {128, 38}, {129, 7}}) {
    const DeviceField<Real> field(grid);
    const Real nan = std::numeric_limits<Real>::quiet_NaN();
    gpu::copy<gpu::to_device>(field.before(0).row(y) + x, &nan, sizeof nan);
    const auto where = field.first_broken(0);
    EXPECT(where && (*where)[0] == x && (*where)[1] == y);
    gpu::zero(memory.data(), sizeof(ResidualMax));
    InteriorSweep<Real> job{};
    job.from = field.before(0);
    job.to = field.before(1);
    job.region = grid.interior();
    job.tiles_across = job.from.stride * static_cast<std::int64_t>(sizeof(Real)) / pitch_bytes;
    job.tiles = 2 * job.tiles_across;  // 38 rows
    job.residual = residual;
    sweep_interior<Real, true><<<static_cast<unsigned>(job.tiles), sweep_warps * warp_threads>>>(job);
    gpu::check_launch();
    ResidualMax found{};
    gpu::copy<gpu::to_host>(&found, residual, sizeof found);
    EXPECT(std::isnan(std::bit_cast<double>(found.bits)));
  }
}

}  // namespace

int main() {
  const auto presence = gpu::presence();
  if (presence.devices == 0) {
    std::printf("%s\n", presence.reason.c_str());
    return nothing_to_test_on;
  }
  const Options options;
  const Placement placement = place(options);
  start_mpi();
  {
    const Context context = make_context(options, placement);
    on_domains_of_all_kinds(context);
  }
  a_nan_anywhere_is_seen<double>();
  a_nan_anywhere_is_seen<float>();
  MPI_Finalize();
  return test::finish();
}
