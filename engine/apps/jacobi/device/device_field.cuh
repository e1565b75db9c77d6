// The points of a local domain in device memory, in two planes. Halos are not in the planes but in their messages.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "gpu/buffers.cuh"
#include "gpu/streams.cuh"
#include "jacobi/grid.hpp"
#include "jacobi/sweep.hpp"

namespace volley::jacobi {

template <class Real>
class DeviceField {
 public:
  // Writes zeros and the boundary values, which the host computes.
  explicit DeviceField(const Grid& grid);

  // The points before iteration `iteration`.
  [[nodiscard]] const Plane<Real>& before(std::uint64_t iteration) const { return planes_[iteration % 2]; }
  // Copies the plane before `iteration` to the other plane.
  void copy(std::uint64_t iteration, const gpu::Stream& cuda_stream) const;

  // The same as in host_field.hpp, of the points before `iteration`. These calls wait for the device.
  [[nodiscard]] std::uint64_t hash(std::uint64_t iteration) const;
  [[nodiscard]] double deviation(std::uint64_t iteration) const;
  [[nodiscard]] std::optional<std::array<std::int64_t, 2>> first_broken(std::uint64_t iteration) const;

 private:
  const Grid& grid_;
  std::size_t plane_bytes_;
  std::array<gpu::DeviceBuffer, 2> memory_;
  std::array<Plane<Real>, 2> planes_;
};

}  // namespace volley::jacobi
