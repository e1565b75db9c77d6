#include "jacobi/device/field.cuh"

#include <algorithm>
#include <type_traits>
#include <vector>

#include "host/pattern.hpp"
#include "jacobi/device/pitch.hpp"

namespace volley::jacobi::device {

namespace {

constexpr unsigned threads = 256;
constexpr unsigned most_blocks = 2048;

unsigned blocks_for(const Grid& grid) {
  const std::int64_t points = grid.columns() * grid.rows();
  return static_cast<unsigned>(std::clamp<std::int64_t>((points + threads - 1) / threads, 1, most_blocks));
}

// Copies numbers to the device.
template <class Number>
gpu::DeviceBuffer on_device(const std::vector<Number>& numbers) {
  gpu::DeviceBuffer buffer(numbers.size() * sizeof(Number));
  VOLLEY_CUDA_CHECK(cudaMemcpy(buffer.data(), numbers.data(), numbers.size() * sizeof(Number), cudaMemcpyHostToDevice));
  return buffer;
}

// The one word that kernels put together.
class Word {
 public:
  explicit Word(unsigned long long begin) : buffer_(sizeof begin) {
    VOLLEY_CUDA_CHECK(cudaMemcpy(buffer_.data(), &begin, sizeof begin, cudaMemcpyHostToDevice));
  }
  [[nodiscard]] unsigned long long* get() const { return reinterpret_cast<unsigned long long*>(buffer_.data()); }
  [[nodiscard]] unsigned long long read() const {
    VOLLEY_CUDA_CHECK(cudaGetLastError());  // of the launch before
    unsigned long long value = 0;
    VOLLEY_CUDA_CHECK(cudaMemcpy(&value, buffer_.data(), sizeof value, cudaMemcpyDeviceToHost));
    return value;
  }

 private:
  gpu::DeviceBuffer buffer_;
};

// Calls `look(number, x, y)` for every point: each thread has its own of them, in their order.
template <class Look>
__device__ void for_all(std::int64_t columns, std::int64_t rows, const Look& look) {
  const std::int64_t all = gridDim.x * std::int64_t{blockDim.x};
  for (std::int64_t i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; i < columns * rows; i += all) {
    look(i, i % columns, i / columns);
  }
}

__device__ std::uint64_t mixed(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

__device__ std::uint64_t bits_of(double value) { return static_cast<std::uint64_t>(__double_as_longlong(value)); }
__device__ std::uint64_t bits_of(float value) { return static_cast<std::uint32_t>(__float_as_int(value)); }

template <class Real>
__global__ void hash_kernel(Plane<Real> plane, std::int64_t columns, std::int64_t rows, std::int64_t first,
                            std::int64_t all_columns, unsigned long long* total) {
  std::uint64_t sum = 0;
  for_all(columns, rows, [&](std::int64_t, std::int64_t x, std::int64_t y) {
    const auto number = static_cast<std::uint64_t>(first + y * all_columns + x);
    sum += mixed(number * pattern_step ^ mixed(bits_of(plane.row(y)[x])));
  });
  atomicAdd(total, static_cast<unsigned long long>(sum));
}

// The largest as its bits: it is not negative.
template <class Real>
__global__ void error_kernel(Plane<Real> plane, std::int64_t columns, std::int64_t rows, const double* profile,
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

}  // namespace

template <class Real>
DeviceField<Real>::DeviceField(const Grid& grid) : bytes_(plane_bytes(grid.columns(), grid.rows(), sizeof(Real))) {
  const std::int64_t stride = stride_of(grid.columns(), sizeof(Real));
  const Region free = grid.free();
  for (std::size_t i = 0; i < planes_.size(); ++i) {
    memory_[i] = gpu::DeviceBuffer(bytes_);
    planes_[i] = {reinterpret_cast<Real*>(memory_[i].data() + pitch_bytes), stride};
    VOLLEY_CUDA_CHECK(cudaMemset(memory_[i].data(), 0, bytes_));
    for (const std::int64_t x : {std::int64_t{0}, grid.columns() - 1}) {  // all other fixed points are 0
      if (x >= free.x0 && x < free.x1) continue;
      std::vector<Real> column(static_cast<std::size_t>(grid.rows()));
      for (std::size_t y = 0; y < column.size(); ++y) {
        const auto row = grid.first_row() + static_cast<std::int64_t>(y);
        column[y] = static_cast<Real>(boundary_value(grid, grid.first_column() + x, row));
      }
      VOLLEY_CUDA_CHECK(cudaMemcpy2D(planes_[i].row(0) + x, static_cast<std::size_t>(stride) * sizeof(Real),
                                     column.data(), sizeof(Real), sizeof(Real), column.size(), cudaMemcpyHostToDevice));
    }
  }
  VOLLEY_CUDA_CHECK(cudaDeviceSynchronize());
}

template <class Real>
void DeviceField<Real>::copy(std::uint64_t iteration, const gpu::Stream& cuda_stream) const {
  VOLLEY_CUDA_CHECK(cudaMemcpyAsync(memory_[(iteration + 1) % 2].data(), memory_[iteration % 2].data(), bytes_,
                                    cudaMemcpyDeviceToDevice, cuda_stream.get()));
}

template <class Real>
std::uint64_t DeviceField<Real>::hash(const Grid& grid, std::uint64_t iteration) const {
  const Word sum(0);
  hash_kernel<<<blocks_for(grid), threads>>>(before(iteration), grid.columns(), grid.rows(),
                                             grid.first_row() * grid.all_columns() + grid.first_column(),
                                             grid.all_columns(), sum.get());
  return sum.read();
}

template <class Real>
double DeviceField<Real>::error(const Grid& grid, std::uint64_t iteration) const {
  std::vector<double> profile(static_cast<std::size_t>(grid.columns()));
  std::vector<double> sine(static_cast<std::size_t>(grid.rows()));
  for (std::size_t x = 0; x < profile.size(); ++x) {
    profile[x] = exact_profile(grid, grid.first_column() + static_cast<std::int64_t>(x));
  }
  for (std::size_t y = 0; y < sine.size(); ++y) {
    sine[y] = exact_sine(grid, grid.first_row() + static_cast<std::int64_t>(y));
  }
  const auto profile_there = on_device(profile);
  const auto sine_there = on_device(sine);
  const Word largest(0);
  error_kernel<<<blocks_for(grid), threads>>>(before(iteration), grid.columns(), grid.rows(),
                                              reinterpret_cast<const double*>(profile_there.data()),
                                              reinterpret_cast<const double*>(sine_there.data()), largest.get());
  return __builtin_bit_cast(double, largest.read());
}

template <class Real>
std::optional<std::array<std::int64_t, 2>> DeviceField<Real>::first_broken(const Grid& grid,
                                                                           std::uint64_t iteration) const {
  constexpr unsigned long long none = ~0ULL;
  const Word first(none);
  broken_kernel<<<blocks_for(grid), threads>>>(before(iteration), grid.columns(), grid.rows(), first.get());
  const auto number = first.read();
  if (number == none) return std::nullopt;
  const auto point = static_cast<std::int64_t>(number);
  return std::array{grid.first_column() + point % grid.columns(), grid.first_row() + point / grid.columns()};
}

template class DeviceField<double>;
template class DeviceField<float>;

}  // namespace volley::jacobi::device
