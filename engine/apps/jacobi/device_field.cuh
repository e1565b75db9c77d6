// The points of a local domain in device memory, in two planes. Halos are not in the planes but in their messages.
#pragma once

#include <algorithm>

#include "gpu/kernel_launch.cuh"
#include "jacobi/sweep.hpp"

namespace volley::jacobi {

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

template <class Real>
class DeviceField {
 public:
  // Writes zeros and the boundary values, which the host computes.
  explicit DeviceField(const Grid& grid)
      : grid_(grid), plane_bytes_(device_field_bytes(grid.columns(), grid.rows(), sizeof(Real)) / 2) {
    const std::int64_t stride = device_stride(grid.columns(), sizeof(Real));
    const Region free = grid.free();
    for (std::size_t i = 0; i < planes_.size(); ++i) {
      memory_[i] = gpu::DeviceBuffer(plane_bytes_);
      planes_[i] = {reinterpret_cast<Real*>(memory_[i].data() + pitch_bytes), stride};
      gpu::zero(memory_[i].data(), plane_bytes_);
      for (const std::int64_t x : {std::int64_t{0}, grid.columns() - 1}) {  // all other fixed points are 0
        if (x >= free.x0 && x < free.x1) continue;
        std::vector<Real> column(static_cast<std::size_t>(grid.rows()));
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
    gpu::copy_on_device_async(memory_[(iteration + 1) % 2].data(), memory_[iteration % 2].data(), plane_bytes_,
                              cuda_stream.get());
  }

  // The same as in host_solver.hpp, of the points before `iteration`. These calls wait for the device.
  [[nodiscard]] std::uint64_t hash(std::uint64_t iteration) const {
    return sum_of(iteration, HashSum{point_number(grid_, 0), static_cast<std::uint64_t>(grid_.all_columns())});
  }

  [[nodiscard]] double deviation(std::uint64_t iteration) const {
    std::vector<double> numbers;  // the profile of all columns, then the sine of all rows
    for (std::int64_t x = 0; x < grid_.columns(); ++x) {
      numbers.push_back(exact_profile(grid_, grid_.first_column() + x));
    }
    for (std::int64_t y = 0; y < grid_.rows(); ++y) numbers.push_back(exact_sine(grid_, grid_.first_row() + y));
    const gpu::DeviceBuffer buffer(numbers.size() * sizeof(double));
    gpu::copy_to_device(buffer.data(), numbers.data(), numbers.size() * sizeof(double));
    const auto* const profile = reinterpret_cast<const double*>(buffer.data());
    return __builtin_bit_cast(double, sum_of(iteration, LargestDeviation{profile, profile + grid_.columns()}));
  }

  [[nodiscard]] std::optional<std::array<std::int64_t, 2>> first_broken(std::uint64_t iteration) const {
    std::vector<Real> row(static_cast<std::size_t>(grid_.columns()));
    return first_broken_point(grid_, [&](std::int64_t y) {
      gpu::copy_to_host(row.data(), before(iteration).row(y), row.size() * sizeof(Real));
      return row.data();
    });
  }

 private:
  template <class Sum>
  [[nodiscard]] std::uint64_t sum_of(std::uint64_t iteration, const Sum& sum) const {
    constexpr unsigned threads = 256;
    constexpr std::int64_t max_blocks = 2048;
    const std::int64_t blocks = (grid_.columns() * grid_.rows() + threads - 1) / threads;
    std::uint64_t total = 0;
    const gpu::DeviceBuffer word(sizeof total);
    gpu::copy_to_device(word.data(), &total, sizeof total);
    over_points<<<static_cast<unsigned>(std::min(blocks, max_blocks)), threads>>>(
        before(iteration), grid_.columns(), grid_.rows(), sum, reinterpret_cast<unsigned long long*>(word.data()));
    gpu::check_launch();
    gpu::copy_to_host(&total, word.data(), sizeof total);
    return total;
  }

  const Grid& grid_;
  std::size_t plane_bytes_;
  std::array<gpu::DeviceBuffer, 2> memory_;
  std::array<Plane<Real>, 2> planes_;
};

}  // namespace volley::jacobi
