// Who solves a rank's part of a problem: the cores of its processor, or its device.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "group/context.hpp"
#include "jacobi/grid.hpp"
#include "jacobi/halos.hpp"
#include "jacobi/options.hpp"
#include "jacobi/residuals.hpp"
#include "jacobi/sweep.hpp"

namespace volley::jacobi {

// Copies and iterations are collective; their points are there at once.
class Worker {
 public:
  virtual ~Worker() = default;

  // Threads of the processor that compute; 0 on a device.
  [[nodiscard]] virtual int threads() const = 0;
  // The kinds of stores that there are to choose from; none on a device, which has its own.
  [[nodiscard]] virtual std::vector<Stores> kinds_of_stores() const = 0;
  // What copies and iterations use from now on.
  virtual void use(Stores stores) = 0;
  // Copies every point, from the one plane to the other, so many times.
  virtual void copy(std::uint64_t times) = 0;

  // Up to `most` iterations more, with open halos. Returns how many there were: fewer where the end came first.
  virtual std::uint64_t advance(std::uint64_t most) = 0;
  [[nodiscard]] virtual std::uint64_t iterations() const = 0;
  [[nodiscard]] virtual const Residuals& residuals() const = 0;
  [[nodiscard]] virtual const Parts& parts() const = 0;

  // Of this rank's points: the part of the hash (field.hpp), the largest deviation from the exact solution, and the
  // global column and row of the first that is no finite number.
  [[nodiscard]] virtual std::uint64_t hash() = 0;
  [[nodiscard]] virtual double error() = 0;
  [[nodiscard]] virtual std::optional<std::array<std::int64_t, 2>> first_broken() = 0;
};

// `halos` carries points of the plan's precision, in the worker's kind of memory.
[[nodiscard]] std::unique_ptr<Worker> make_host_worker(const Context& context, const JacobiOptions& plan,
                                                       const Grid& grid, Halos& halos);
// The current device. device/*.cu answer where the build has CUDA, device/absent.cpp where it has not.
[[nodiscard]] std::unique_ptr<Worker> make_device_worker(const Context& context, const JacobiOptions& plan,
                                                         const Grid& grid, Halos& halos);

// More bytes than any memory has.
inline constexpr std::uint64_t beyond_memory = ~std::uint64_t{0};

// Bytes of memory that a worker takes for a domain of columns × rows points.
[[nodiscard]] std::uint64_t bytes_of_field(MemoryKind kind, std::int64_t columns, std::int64_t rows,
                                           std::size_t point_bytes);

}  // namespace volley::jacobi
