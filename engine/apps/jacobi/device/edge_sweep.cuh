// The points whose new values need a halo: one column or row for each neighbour. The new values are stored to the field
// and, as the next halos, to the messages, so that nothing is packed. The halos are read from the messages.
#pragma once

#include <cstdint>

#include "jacobi/device/interior_sweep.cuh"

namespace volley::jacobi {

inline constexpr unsigned edge_threads = 256;

// The halo on one side. Both pointers are null where there is no neighbour.
template <class Real>
struct EdgeHalo {
  const Real* received;  // from the neighbour: a point for each point of this domain along the side
  Real* to_send;         // to the neighbour
};

template <class Real>
struct EdgeSweep {
  Plane<Real> from;
  Plane<Real> to;
  std::int64_t columns;
  std::int64_t rows;
  Region regions[4];        // Grid::edges()
  std::int64_t first[5];    // the number of each region's first point, and the number of all points
  EdgeHalo<Real> halos[4];  // in the order of Side
  ResidualMax* residual;    // of this iteration; null if it has none
};

inline constexpr int left_side = static_cast<int>(Side::left);
inline constexpr int right_side = static_cast<int>(Side::right);
inline constexpr int up_side = static_cast<int>(Side::up);
inline constexpr int down_side = static_cast<int>(Side::down);

// A point of the domain or of a halo.
template <class Real>
__device__ Real point_of(const EdgeSweep<Real>& job, std::int64_t x, std::int64_t y) {
  if (x < 0) return job.halos[left_side].received[y];
  if (x == job.columns) return job.halos[right_side].received[y];
  if (y < 0) return job.halos[up_side].received[x];
  if (y == job.rows) return job.halos[down_side].received[x];
  return job.from.row(y)[x];
}

// Stores a point on the outermost lines to the messages that it belongs to.
template <class Real>
__device__ void send_point(const EdgeSweep<Real>& job, std::int64_t x, std::int64_t y, Real value) {
  const auto put = [&](int side, bool there, std::int64_t place) {
    if (there && job.halos[side].to_send != nullptr) job.halos[side].to_send[place] = value;
  };
  put(left_side, x == 0, y);
  put(right_side, x == job.columns - 1, y);
  put(up_side, y == 0, x);
  put(down_side, y == job.rows - 1, x);
}

template <class Real>
__global__ void __launch_bounds__(edge_threads) sweep_edges(const EdgeSweep<Real> job) {
  const std::int64_t number = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x;
  typename ChangeBits<Real>::Type largest = 0;
  if (number < job.first[4]) {
    int side = 0;
    while (number >= job.first[side + 1]) ++side;
    const Region& region = job.regions[side];
    const std::int64_t place = number - job.first[side];
    const std::int64_t width = region.x1 - region.x0;
    const std::int64_t x = region.x0 + place % width;
    const std::int64_t y = region.y0 + place / width;
    const Real value =
        new_value(point_of(job, x - 1, y), point_of(job, x + 1, y), point_of(job, x, y - 1), point_of(job, x, y + 1));
    job.to.row(y)[x] = value;
    send_point(job, x, y, value);
    largest = ChangeBits<Real>::of(value - job.from.row(y)[x]);
  }
  if (job.residual != nullptr) raise_residual<Real>(job.residual, largest);
}

// Fills the messages with the outermost points before the first iteration. The fixed points among them stay for all
// later iterations.
template <class Real>
__global__ void pack_messages(const EdgeSweep<Real> job) {
  const std::int64_t threads = gridDim.x * std::int64_t{blockDim.x};
  const std::int64_t first = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x;
  for (std::int64_t y = first; y < job.rows; y += threads) {
    send_point(job, 0, y, job.from.row(y)[0]);
    send_point(job, job.columns - 1, y, job.from.row(y)[job.columns - 1]);
  }
  for (std::int64_t x = first; x < job.columns; x += threads) {
    send_point(job, x, 0, job.from.row(0)[x]);
    send_point(job, x, job.rows - 1, job.from.row(job.rows - 1)[x]);
  }
}

// After the last iteration of a batch, because no interior follows that would do this.
static __global__ void publish_last_residual(ResidualMax* residual, ResidualReport* report, std::uint64_t number) {
  publish_residual(residual, report, number);
}

}  // namespace volley::jacobi
