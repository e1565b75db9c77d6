// On a GPU: its field is the CPU's bit for bit, whatever the domain's sides; a NaN anywhere is seen and found.
#include "check_test.hpp"
#include "gpu/buffers.cuh"
#include "gpu/gpu.hpp"
#include "jacobi/device/field.cuh"
#include "jacobi/device/sweep.cuh"
#include "jacobi/worker.hpp"
#include "transport/registry.hpp"

#include <mpi.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <limits>

using namespace volley;
using namespace volley::jacobi;

namespace {

constexpr int nothing_to_test_on = 77;

void the_field_is_the_same(const Context& context, const JacobiOptions& plan) {
  const Grid grid(plan, 0);
  const std::size_t point_bytes = plan.single ? sizeof(float) : sizeof(double);
  Halos here(context, grid, *find_transport("host"), point_bytes);
  Halos there(context, grid, *find_transport("staged/pinned"), point_bytes);
  const auto host = make_host_worker(context, plan, grid, here);
  const auto device = make_device_worker(context, plan, grid, there);
  EXPECT(host->hash() == device->hash());
  for (const std::uint64_t most : {std::uint64_t{1}, std::uint64_t{1}, std::uint64_t{2}, plan.iterations}) {
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
  EXPECT(std::fabs(host->error() - device->error()) < 1e-12);
  EXPECT(!device->first_broken());
  EXPECT(device->parts().interior_s > 0);
}

void on_domains_of_all_kinds(const Context& context) {
  for (const bool single : {false, true}) {
    for (const std::array<std::int64_t, 2> domain : {std::array<std::int64_t, 2>{3, 3},
                                                     {3, 300},
                                                     {300, 3},
                                                     {64, 34},
                                                     {65, 33},
                                                     {127, 66},
                                                     {513, 200},
                                                     {1023, 97}}) {
      for (const std::uint64_t every : {1, 7}) {
        JacobiOptions plan;
        plan.domain = domain;
        plan.single = single;
        plan.iterations = 60;
        plan.check_every = every;
        the_field_is_the_same(context, plan);
        plan.tolerance = 0.01;  // ends before
        the_field_is_the_same(context, plan);
      }
    }
  }
}

template <class Real>
void a_nan_anywhere_is_seen() {
  JacobiOptions plan;
  plan.domain = {130, 40};
  const Grid grid(plan, 0);
  const gpu::DeviceBuffer memory(sizeof(device::ResidualMax));
  auto* tally = reinterpret_cast<device::ResidualMax*>(memory.data());
  for (const auto [x, y] : {std::array<std::int64_t, 2>{0, 5}, {1, 1}, {64, 39}, {63, 20}, {128, 38}, {129, 7}}) {
    const device::DeviceField<Real> field(grid);
    const Real nan = std::numeric_limits<Real>::quiet_NaN();
    VOLLEY_CUDA_CHECK(cudaMemcpy(field.before(0).row(y) + x, &nan, sizeof nan, cudaMemcpyHostToDevice));
    const auto where = field.first_broken(grid, 0);
    EXPECT(where && (*where)[0] == x && (*where)[1] == y);
    VOLLEY_CUDA_CHECK(cudaMemset(memory.data(), 0, sizeof(device::ResidualMax)));
    const std::int64_t across = field.before(0).stride * static_cast<std::int64_t>(sizeof(Real)) / device::pitch_bytes;
    constexpr std::int64_t along = 2;  // 38 rows
    const device::Interior<Real> job{field.before(0), field.before(1), grid.interior(), across,  along * across,
                                     false,           tally,           nullptr,         nullptr, 0};
    const auto blocks = static_cast<unsigned>(job.tiles);
    device::sweep_interior<Real, true><<<blocks, device::sweep_warps * device::warp_threads>>>(job);
    device::ResidualMax found{};
    VOLLEY_CUDA_CHECK(cudaMemcpy(&found, tally, sizeof found, cudaMemcpyDeviceToHost));
    EXPECT(std::isnan(std::bit_cast<double>(found.bits)));
  }
}

}  // namespace

int main(int argc, char** argv) {
  const auto presence = gpu::presence();
  if (presence.devices == 0) {
    std::printf("%s\n", presence.reason.c_str());
    return nothing_to_test_on;
  }
  const Options options;
  const Placement placement = place(options);
  MPI_Init(&argc, &argv);
  {
    const Context context = make_context(options, placement);
    on_domains_of_all_kinds(context);
  }
  a_nan_anywhere_is_seen<double>();
  a_nan_anywhere_is_seen<float>();
  MPI_Finalize();
  return test::finish();
}
