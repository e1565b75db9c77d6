// The points of a local domain in device memory, and the arithmetic of an iteration there: the same operations in the
// same order as jacobi/sweep.cpp, so that the results are the same bit for bit. Compiled with -fmad=false: nothing is
// fused.
//
// The interior. A warp has a tile of 512 bytes of columns and some rows. Each thread loads 16 bytes of each of its rows
// and of the rows above and below, all at once, so that many loads are in flight. The points above and below a point
// are then in the thread's registers, and the points left and right in those of its neighbours in the warp. A row that
// two tiles need is read by both, the second time from a cache, because tiles above each other are in one block.
//
// The shape was measured on an H200 with the residual of every iteration at 4096² and 20480² points: 8 rows a thread
// and 4 warps a block were the fastest of 1 to 16 rows and 2 to 16 warps in double precision, and of 4 × 4, 8 × 4,
// and 8 × 8 in single precision.
#pragma once

#include <algorithm>

#include "gpu/kernel_launch.cuh"
#include "gpu/kernels/flag.cuh"
#include "jacobi/grid.hpp"

namespace volley::jacobi {

inline constexpr int sweep_rows = 8;
inline constexpr int sweep_warps = 4;
inline constexpr unsigned warp_threads = 32;
inline constexpr unsigned every_lane = 0xFFFFFFFFU;

template <class Real>
struct alignas(16) PointVector {
  static constexpr int points = 16 / sizeof(Real);
  Real at[points];
};

// The largest change of an iteration on this device, as its bits: see Solver::reduce().
struct ResidualMax {
  unsigned long long bits;
};

// In host memory: the residual of an iteration. `number` is the iteration, counted from 1.
struct ResidualReport {
  std::uint64_t bits;
  std::uint64_t number;
};

// The bits of |change|, and those of a float as a double's.
__device__ inline unsigned long long change_bits(double change) {
  return static_cast<unsigned long long>(__double_as_longlong(change)) & 0x7FFFFFFFFFFFFFFFULL;
}
__device__ inline unsigned change_bits(float change) {
  return static_cast<unsigned>(__float_as_int(change)) & 0x7FFFFFFFU;
}
__device__ inline unsigned long long widened(unsigned long long bits) { return bits; }
__device__ inline unsigned long long widened(unsigned bits) {
  return change_bits(static_cast<double>(__uint_as_float(bits)));
}

template <class Number>
__device__ Number larger(Number a, Number b) {
  return a > b ? a : b;
}

template <class Real>
__device__ Real new_value(Real left, Real right, Real above, Real below) {
  return Real(0.25) * ((left + right) + (above + below));
}

// Stores what a thread has of a row.
//
// Single precision: one streaming store of 16 bytes, which leaves the caches first. From an assignment the compiler
// would make four stores, because threads at the border of the region store single points, and each of the four would
// write every fourth point. On an H200 the streaming store gave 25 % more updates a second. Double precision: two
// ordinary stores took no longer there, and less time where the second-level cache keeps a part of the field until the
// next iteration.
template <class Real>
__device__ void store(Real* to, const PointVector<Real>& points) {
  if constexpr (std::is_same_v<Real, float>) {
    __stcs(reinterpret_cast<float4*>(to), reinterpret_cast<const float4&>(points));
  } else {
    *reinterpret_cast<PointVector<Real>*>(to) = points;
  }
}

// Raises the residual to the largest change of a block's threads. Every thread of the block calls it.
template <class Bits>
__device__ void raise_residual(ResidualMax* residual, Bits largest) {
  __shared__ Bits of_warp[warp_threads];
  for (unsigned step = warp_threads / 2; step > 0; step /= 2) {
    largest = larger(largest, __shfl_xor_sync(every_lane, largest, step));
  }
  const unsigned lane = threadIdx.x % warp_threads;
  if (lane == 0) of_warp[threadIdx.x / warp_threads] = largest;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (unsigned warp = 1; warp < blockDim.x / warp_threads; ++warp) largest = larger(largest, of_warp[warp]);
  atomicMax(&residual->bits, widened(largest));
}

// Writes the residual of an iteration to host memory, and resets it for the iteration after the next.
__device__ inline void publish_residual(ResidualMax* residual, ResidualReport* report, std::uint64_t number) {
  report->bits = residual->bits;
  gpu::kernels::raise(report->number, number);
  residual->bits = 0;
}

template <class Real>
struct InteriorSweep {
  Plane<Real> from;
  Plane<Real> to;
  Region region;
  std::int64_t tiles_across;
  std::int64_t tiles;
  bool upwards;            // the last tiles first
  ResidualMax* residual;   // of this iteration; null if it has none
  ResidualMax* previous;   // of the iteration before; null if it has none
  ResidualReport* report;  // where `previous` is written for the host
  std::uint64_t number;    // of the iteration before, counted from 1
};

// `reduces`: the iteration has a residual.
template <class Real, bool reduces>
__global__ void __launch_bounds__(sweep_warps* warp_threads) sweep_interior(const InteriorSweep<Real> job) {
  using V = PointVector<Real>;
  if (job.previous != nullptr && blockIdx.x == 0 && threadIdx.x == 0)
    publish_residual(job.previous, job.report, job.number);
  const std::int64_t tile = job.upwards ? job.tiles - 1 - blockIdx.x : blockIdx.x;
  const int lane = static_cast<int>(threadIdx.x % warp_threads);
  const std::int64_t x = (tile % job.tiles_across * warp_threads + lane) * V::points;
  const std::int64_t y =
      job.region.y0 + (tile / job.tiles_across * sweep_warps + threadIdx.x / warp_threads) * sweep_rows;
  auto largest = change_bits(Real(0));
  if (y < job.region.y1) {  // the same for all threads of a warp
    V line[sweep_rows + 2];
    Real beside[sweep_rows];  // left of the first lane, right of the last
    const Real* const origin = job.from.origin + x;
#pragma unroll
    for (int i = 0; i < sweep_rows + 2; ++i) {
      const std::int64_t row = y - 1 + i < job.region.y1 ? y - 1 + i : job.region.y1;
      line[i] = *reinterpret_cast<const V*>(origin + row * job.from.stride);
    }
    const int step = lane == 0 ? -1 : V::points;
    if (lane == 0 || lane == warp_threads - 1) {
#pragma unroll
      for (int i = 0; i < sweep_rows; ++i) {
        const std::int64_t row = y + i < job.region.y1 ? y + i : job.region.y1;
        beside[i] = origin[row * job.from.stride + step];
      }
    }
    const bool whole = x >= job.region.x0 && x + V::points <= job.region.x1;
#pragma unroll
    for (int i = 0; i < sweep_rows; ++i) {
      const V& here = line[i + 1];
      Real left = __shfl_up_sync(every_lane, here.at[V::points - 1], 1);
      Real right = __shfl_down_sync(every_lane, here.at[0], 1);
      if (lane == 0) left = beside[i];
      if (lane == warp_threads - 1) right = beside[i];
      if (y + i >= job.region.y1) continue;
      V fresh;
#pragma unroll
      for (int p = 0; p < V::points; ++p) {
        fresh.at[p] = new_value(p == 0 ? left : here.at[p - 1], p == V::points - 1 ? right : here.at[p + 1],
                                line[i].at[p], line[i + 2].at[p]);
      }
      Real* const out = job.to.origin + (y + i) * job.to.stride + x;
      if (whole) store(out, fresh);
#pragma unroll
      for (int p = 0; p < V::points; ++p) {
        const bool mine = whole || (x + p >= job.region.x0 && x + p < job.region.x1);
        if (mine && !whole) out[p] = fresh.at[p];
        if (reduces && mine) largest = larger(largest, change_bits(fresh.at[p] - here.at[p]));
      }
    }
  }
  if constexpr (reduces) raise_residual(job.residual, largest);
}

// The points whose new values need a halo: one column or row for each neighbour. The new values are stored to the field
// and, as the next halos, to the messages, so that nothing is packed. The halos are read from the messages.

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
  auto largest = change_bits(Real(0));
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
    largest = change_bits(value - job.from.row(y)[x]);
  }
  if (job.residual != nullptr) raise_residual(job.residual, largest);
}

// Fills the messages with the outermost points before the first iteration. The fixed points among them stay.
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

// What is added up, or compared, over all points of the domain: each thread combines its own points to one word.

__device__ inline std::uint64_t bits_of(double value) {
  return static_cast<std::uint64_t>(__double_as_longlong(value));
}
__device__ inline std::uint64_t bits_of(float value) { return static_cast<std::uint32_t>(__float_as_int(value)); }

struct HashSum {
  std::uint64_t first;
  std::uint64_t all_columns;
  template <class Real>
  __device__ std::uint64_t add(std::uint64_t sum, std::int64_t x, std::int64_t y, Real value) const {
    const std::uint64_t number = first + static_cast<std::uint64_t>(y) * all_columns + static_cast<std::uint64_t>(x);
    return sum + point_hash(number, bits_of(value));
  }
  __device__ static void join(unsigned long long* total, std::uint64_t sum) { atomicAdd(total, sum); }
};

// As its bits, which have the order of the numbers because it is not negative.
struct LargestDeviation {
  const double* profile;
  const double* sine;
  template <class Real>
  __device__ std::uint64_t add(std::uint64_t largest, std::int64_t x, std::int64_t y, Real value) const {
    const std::uint64_t bits = bits_of(fabs(static_cast<double>(value) - sine[y] * profile[x]));
    return bits > largest ? bits : largest;
  }
  __device__ static void join(unsigned long long* total, std::uint64_t largest) { atomicMax(total, largest); }
};

template <class Real, class Sum>
__global__ void over_points(Plane<Real> plane, std::int64_t columns, std::int64_t rows, Sum sum,
                            unsigned long long* total) {
  const std::int64_t threads = gridDim.x * std::int64_t{blockDim.x};
  std::uint64_t mine = 0;
  for (std::int64_t i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; i < columns * rows; i += threads) {
    mine = sum.add(mine, i % columns, i / columns, plane.row(i / columns)[i % columns]);
  }
  Sum::join(total, mine);
}

// The field in device memory, in two planes. Halos are not in the planes but in their messages.
template <class Real>
class DeviceField {
 public:
  // Writes zeros and the boundary values, which the host computes.
  explicit DeviceField(const Grid& grid)
      : grid_(grid), plane_bytes_(device_field_bytes(grid.columns, grid.rows, sizeof(Real)) / 2) {
    const std::int64_t stride = device_stride(grid.columns, sizeof(Real));
    const Region free = grid.free();
    for (std::size_t i = 0; i < planes_.size(); ++i) {
      memory_[i] = gpu::DeviceBuffer(plane_bytes_);
      planes_[i] = {reinterpret_cast<Real*>(memory_[i].data() + pitch_bytes), stride};
      gpu::zero(memory_[i].data(), plane_bytes_);
      for (const std::int64_t x : {std::int64_t{0}, grid.columns - 1}) {  // all other fixed points are 0
        if (x >= free.x0 && x < free.x1) continue;
        std::vector<Real> column(static_cast<std::size_t>(grid.rows));
        for (std::size_t y = 0; y < column.size(); ++y) {
          const auto row = grid.first_row() + static_cast<std::int64_t>(y);
          column[y] = static_cast<Real>(boundary_value(grid, grid.first_column() + x, row));
        }
        gpu::copy_column_to_device(planes_[i].row(0) + x, static_cast<std::size_t>(stride) * sizeof(Real),
                                   column.data(), sizeof(Real), column.size());
      }
    }
    gpu::synchronize();
  }

  [[nodiscard]] const Plane<Real>& before(std::uint64_t iteration) const { return planes_[iteration % 2]; }
  // Copies the plane before `iteration` to the other plane.
  void copy(std::uint64_t iteration, const gpu::Stream& cuda_stream) const {
    gpu::copy_async<gpu::on_device>(memory_[(iteration + 1) % 2].data(), memory_[iteration % 2].data(), plane_bytes_,
                                    cuda_stream.get());
  }

  // The same as in host_solver.hpp, of the points before `iteration`. These calls wait for the device.
  [[nodiscard]] std::uint64_t hash(std::uint64_t iteration) const {
    return sum_of(iteration, HashSum{point_number(grid_, 0), static_cast<std::uint64_t>(grid_.all_columns())});
  }

  [[nodiscard]] double deviation(std::uint64_t iteration) const {
    std::vector<double> numbers;  // the profile of all columns, then the sine of all rows
    for (std::int64_t x = 0; x < grid_.columns; ++x) {
      numbers.push_back(exact_profile(grid_, grid_.first_column() + x));
    }
    for (std::int64_t y = 0; y < grid_.rows; ++y) numbers.push_back(exact_sine(grid_, grid_.first_row() + y));
    const gpu::DeviceValues<double> profile(numbers.size());
    gpu::copy<gpu::to_device>(profile.data(), numbers.data(), numbers.size() * sizeof(double));
    return __builtin_bit_cast(double,
                              sum_of(iteration, LargestDeviation{profile.data(), profile.data() + grid_.columns}));
  }

  [[nodiscard]] std::optional<std::array<std::int64_t, 2>> first_broken(std::uint64_t iteration) const {
    std::vector<Real> row(static_cast<std::size_t>(grid_.columns));
    return first_broken_point(grid_, [&](std::int64_t y) {
      gpu::copy<gpu::to_host>(row.data(), before(iteration).row(y), row.size() * sizeof(Real));
      return row.data();
    });
  }

 private:
  template <class Sum>
  [[nodiscard]] std::uint64_t sum_of(std::uint64_t iteration, const Sum& sum) const {
    constexpr unsigned threads = 256;
    constexpr std::int64_t max_blocks = 2048;
    const std::int64_t blocks = (grid_.columns * grid_.rows + threads - 1) / threads;
    unsigned long long total = 0;
    const gpu::DeviceValues<unsigned long long> word(1);
    gpu::copy<gpu::to_device>(word.data(), &total, sizeof total);
    over_points<<<static_cast<unsigned>(std::min(blocks, max_blocks)), threads>>>(before(iteration), grid_.columns,
                                                                                  grid_.rows, sum, word.data());
    gpu::check_launch();
    gpu::copy<gpu::to_host>(&total, word.data(), sizeof total);
    return total;
  }

  const Grid& grid_;
  std::size_t plane_bytes_;
  std::array<gpu::DeviceBuffer, 2> memory_;
  std::array<Plane<Real>, 2> planes_;
};

}  // namespace volley::jacobi
