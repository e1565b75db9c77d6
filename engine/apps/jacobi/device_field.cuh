// The points of a local domain in device memory, in two planes. Halos are not in the planes but in their messages.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "gpu/kernel_launch.cuh"
#include "gpu/runtime.hpp"
#include "jacobi/grid.hpp"
#include "jacobi/sweep.hpp"

namespace volley::jacobi {

inline constexpr unsigned field_threads = 256;
inline constexpr unsigned max_field_blocks = 2048;

inline unsigned blocks_for(const Grid& grid) {
  const std::int64_t points = grid.columns() * grid.rows();
  return static_cast<unsigned>(
      std::clamp<std::int64_t>((points + field_threads - 1) / field_threads, 1, max_field_blocks));
}

inline gpu::DeviceBuffer on_device(const std::vector<double>& numbers) {
  gpu::DeviceBuffer buffer(numbers.size() * sizeof(double));
  gpu::copy_to_device(buffer.data(), numbers.data(), numbers.size() * sizeof(double));
  return buffer;
}

inline const double* numbers_of(const gpu::DeviceBuffer& buffer) {
  return reinterpret_cast<const double*>(buffer.data());
}

// A word that all threads of a kernel update.
class DeviceWord {
 public:
  explicit DeviceWord(unsigned long long initial) : buffer_(sizeof initial) {
    gpu::copy_to_device(buffer_.data(), &initial, sizeof initial);
  }
  [[nodiscard]] unsigned long long* get() const { return reinterpret_cast<unsigned long long*>(buffer_.data()); }
  [[nodiscard]] unsigned long long read() const {
    gpu::check_launch();
    unsigned long long value = 0;
    gpu::copy_to_host(&value, buffer_.data(), sizeof value);
    return value;
  }

 private:
  gpu::DeviceBuffer buffer_;
};

// Calls `visit(number, x, y)` for every point. Each thread visits its own points, in their order.
template <class Visit>
__device__ void for_all(std::int64_t columns, std::int64_t rows, const Visit& visit) {
  const std::int64_t all = gridDim.x * std::int64_t{blockDim.x};
  for (std::int64_t i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; i < columns * rows; i += all) {
    visit(i, i % columns, i / columns);
  }
}

__device__ inline std::uint64_t bits_of(double value) {
  return static_cast<std::uint64_t>(__double_as_longlong(value));
}
__device__ inline std::uint64_t bits_of(float value) { return static_cast<std::uint32_t>(__float_as_int(value)); }

template <class Real>
__global__ void hash_kernel(Plane<Real> plane, std::int64_t columns, std::int64_t rows, std::uint64_t first,
                            std::uint64_t all_columns, unsigned long long* total) {
  std::uint64_t sum = 0;
  for_all(columns, rows, [&](std::int64_t, std::int64_t x, std::int64_t y) {
    const std::uint64_t number = first + static_cast<std::uint64_t>(y) * all_columns + static_cast<std::uint64_t>(x);
    sum += point_hash(number, bits_of(plane.row(y)[x]));
  });
  atomicAdd(total, static_cast<unsigned long long>(sum));
}

// The largest deviation as its bits, which have the order of the numbers because it is not negative.
template <class Real>
__global__ void deviation_kernel(Plane<Real> plane, std::int64_t columns, std::int64_t rows, const double* profile,
                                 const double* sine, unsigned long long* largest) {
  double most = 0;
  for_all(columns, rows, [&](std::int64_t, std::int64_t x, std::int64_t y) {
    most = fmax(most, fabs(static_cast<double>(plane.row(y)[x]) - sine[y] * profile[x]));
  });
  atomicMax(largest, static_cast<unsigned long long>(bits_of(most)));
}

template <class Real>
__global__ void broken_kernel(Plane<Real> plane, std::int64_t columns, std::int64_t rows, unsigned long long* first) {
  for_all(columns, rows, [&](std::int64_t number, std::int64_t x, std::int64_t y) {
    if (!isfinite(plane.row(y)[x])) atomicMin(first, static_cast<unsigned long long>(number));
  });
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
    const DeviceWord sum(0);
    hash_kernel<<<blocks_for(grid_), field_threads>>>(before(iteration), grid_.columns(), grid_.rows(),
                                                      point_number(grid_, 0),
                                                      static_cast<std::uint64_t>(grid_.all_columns()), sum.get());
    return sum.read();
  }

  [[nodiscard]] double deviation(std::uint64_t iteration) const {
    std::vector<double> profile(static_cast<std::size_t>(grid_.columns()));
    std::vector<double> sine(static_cast<std::size_t>(grid_.rows()));
    for (std::size_t x = 0; x < profile.size(); ++x) {
      profile[x] = exact_profile(grid_, grid_.first_column() + static_cast<std::int64_t>(x));
    }
    for (std::size_t y = 0; y < sine.size(); ++y) {
      sine[y] = exact_sine(grid_, grid_.first_row() + static_cast<std::int64_t>(y));
    }
    const auto device_profile = on_device(profile);
    const auto device_sine = on_device(sine);
    const DeviceWord largest(0);
    deviation_kernel<<<blocks_for(grid_), field_threads>>>(before(iteration), grid_.columns(), grid_.rows(),
                                                           numbers_of(device_profile), numbers_of(device_sine),
                                                           largest.get());
    return __builtin_bit_cast(double, largest.read());
  }

  [[nodiscard]] std::optional<std::array<std::int64_t, 2>> first_broken(std::uint64_t iteration) const {
    constexpr unsigned long long none = ~0ULL;
    const DeviceWord first(none);
    broken_kernel<<<blocks_for(grid_), field_threads>>>(before(iteration), grid_.columns(), grid_.rows(), first.get());
    const auto number = first.read();
    if (number == none) return std::nullopt;
    const auto point = static_cast<std::int64_t>(number);
    return std::array{grid_.first_column() + point % grid_.columns(), grid_.first_row() + point / grid_.columns()};
  }

 private:
  const Grid& grid_;
  std::size_t plane_bytes_;
  std::array<gpu::DeviceBuffer, 2> memory_;
  std::array<Plane<Real>, 2> planes_;
};

}  // namespace volley::jacobi
