// The arithmetic of an iteration on a device: the same operations in the same order as jacobi/sweep.cpp, so that the
// results are the same bit for bit. Compiled with -fmad=false: nothing is fused.
//
// The interior. A warp has a tile of 512 bytes of columns and some rows. Each thread loads 16 bytes of each of its rows
// and of the rows above and below, all at once, so that many loads are under way; what is above and below a point is
// then in its registers, and what is left and right in those of its neighbours in the warp. A row that two tiles need
// is read by both, the second time from a cache, since tiles that lie above each other in a block run together.
//
// Its shape, measured on an H200 with the residual of every iteration at 4096² and 20480² points: 8 rows a thread and
// 4 warps a block were the fastest of 1 to 16 rows and 2 to 16 warps in double precision, and in single precision of
// 4 × 4, 8 × 4 and 8 × 8.
#pragma once

#include <cuda/atomic>

#include <cstdint>
#include <type_traits>

#include "jacobi/device/pitch.hpp"
#include "jacobi/grid.hpp"
#include "jacobi/sweep.hpp"

namespace volley::jacobi::device {

constexpr int sweep_rows = 8;
constexpr int sweep_warps = 4;
constexpr unsigned warp_threads = 32;
constexpr unsigned every_lane = 0xFFFFFFFFU;

// What a thread loads and stores at once.
template <class Real>
struct alignas(16) Vector {
  static constexpr int points = 16 / sizeof(Real);
  Real at[points];
};

// The largest change of an iteration on this device, as the bits of a number that is not negative or a NaN: their order
// is that of the numbers, with every NaN behind.
struct ResidualMax {
  unsigned long long bits;
};

// Where the host reads it. `number` says of which iteration: counted from 1.
struct Report {
  std::uint64_t bits;
  std::uint64_t number;
};

template <class Real>
struct Bits;
template <>
struct Bits<double> {
  using Type = unsigned long long;
  static __device__ Type of(double change) {
    return static_cast<Type>(__double_as_longlong(change)) & 0x7FFFFFFFFFFFFFFFULL;
  }
  static __device__ unsigned long long widened(Type bits) { return bits; }
};
template <>
struct Bits<float> {
  using Type = unsigned;
  static __device__ Type of(float change) { return static_cast<Type>(__float_as_int(change)) & 0x7FFFFFFFU; }
  static __device__ unsigned long long widened(Type bits) {
    return Bits<double>::of(static_cast<double>(__uint_as_float(bits)));
  }
};

template <class Number>
__device__ Number larger(Number a, Number b) {
  return a > b ? a : b;
}

template <class Real>
__device__ Real renewed(Real left, Real right, Real above, Real below) {
  return Real(0.25) * ((left + right) + (above + below));
}

// Stores what a thread has of a row.
//
// Single precision: 16 bytes at once, streaming, that is first to leave the caches. As an assignment the compiler would
// make four stores of it, because threads at the rim of the region store single points there, and each of the four
// would go to every fourth point. On an H200 the whole streaming store gave a quarter more updates a second.
// Double precision: two ordinary stores took no longer there, and less long where the second-level cache keeps a part
// of the field until the next iteration.
template <class Real>
__device__ void store(Real* to, const Vector<Real>& points) {
  if constexpr (std::is_same_v<Real, float>) {
    __stcs(reinterpret_cast<float4*>(to), reinterpret_cast<const float4&>(points));
  } else {
    *reinterpret_cast<Vector<Real>*>(to) = points;
  }
}

// Adds what the threads of a block found. Every thread of the block must come here.
template <class Real>
__device__ void add_to(ResidualMax* tally, typename Bits<Real>::Type largest) {
  __shared__ typename Bits<Real>::Type of_warp[warp_threads];
  for (unsigned step = warp_threads / 2; step > 0; step /= 2) {
    largest = larger(largest, __shfl_xor_sync(every_lane, largest, step));
  }
  const unsigned lane = threadIdx.x % warp_threads;
  if (lane == 0) of_warp[threadIdx.x / warp_threads] = largest;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (unsigned warp = 1; warp < blockDim.x / warp_threads; ++warp) largest = larger(largest, of_warp[warp]);
  atomicMax(&tally->bits, Bits<Real>::widened(largest));
}

// Tells the host what the iteration before found, and empties its tally for the one after this.
__device__ inline void publish(ResidualMax* tally, Report* report, std::uint64_t number) {
  report->bits = tally->bits;
  cuda::atomic_ref<std::uint64_t, cuda::thread_scope_system>(report->number).store(number, cuda::memory_order_release);
  tally->bits = 0;
}

template <class Real>
struct Interior {
  Plane<Real> from;
  Plane<Real> to;
  Region region;
  std::int64_t tiles_across;
  std::int64_t tiles;
  bool upwards;         // the last tiles first
  ResidualMax* tally;   // of this iteration; null: it has no residual
  ResidualMax* before;  // of the iteration before; null: it had none
  Report* report;       // for that one
  std::uint64_t number;
};

// `looks` for the residual.
template <class Real, bool looks>
__global__ void __launch_bounds__(sweep_warps* warp_threads) sweep_interior(const Interior<Real> job) {
  using V = Vector<Real>;
  if (job.before != nullptr && blockIdx.x == 0 && threadIdx.x == 0) publish(job.before, job.report, job.number);
  const std::int64_t tile = job.upwards ? job.tiles - 1 - blockIdx.x : blockIdx.x;
  const int lane = static_cast<int>(threadIdx.x % warp_threads);
  const std::int64_t x = (tile % job.tiles_across * warp_threads + lane) * V::points;
  const std::int64_t y =
      job.region.y0 + (tile / job.tiles_across * sweep_warps + threadIdx.x / warp_threads) * sweep_rows;
  typename Bits<Real>::Type largest = 0;
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
        fresh.at[p] = renewed(p == 0 ? left : here.at[p - 1], p == V::points - 1 ? right : here.at[p + 1],
                              line[i].at[p], line[i + 2].at[p]);
      }
      Real* const out = job.to.origin + (y + i) * job.to.stride + x;
      if (whole) store(out, fresh);
#pragma unroll
      for (int p = 0; p < V::points; ++p) {
        const bool mine = whole || (x + p >= job.region.x0 && x + p < job.region.x1);
        if (mine && !whole) out[p] = fresh.at[p];
        if (looks && mine) largest = larger(largest, Bits<Real>::of(fresh.at[p] - here.at[p]));
      }
    }
  }
  if constexpr (looks) add_to<Real>(job.tally, largest);
}

}  // namespace volley::jacobi::device
