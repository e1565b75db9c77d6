// The points of a local domain, twice: as they are and as they become; with room for the halos around them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "host/memory.hpp"
#include "jacobi/grid.hpp"
#include "jacobi/sweep.hpp"
#include "jacobi/team.hpp"

namespace volley::jacobi {

// The rows of `region` that belong to a thread, when `rows` rows are shared out evenly: the same ones in every call, so
// that a thread works on memory that it touched first.
[[nodiscard]] Region share_of(const Region& region, std::int64_t rows, int thread, int threads);

// Bytes of a field of columns × rows points of `point_bytes` each, padding included.
[[nodiscard]] std::uint64_t field_bytes(std::int64_t columns, std::int64_t rows, std::size_t point_bytes);

template <class Real>
class Field {
 public:
  // Boundary values and zeros, written by the threads that will work on them.
  Field(const Grid& grid, Team& team);

  [[nodiscard]] const Plane<Real>& now() const { return planes_[current_]; }
  [[nodiscard]] const Plane<Real>& next() const { return planes_[1 - current_]; }
  void turn() { current_ = 1 - current_; }

 private:
  void begin_rows(const Grid& grid, int plane, std::int64_t y0, std::int64_t y1);

  std::array<Mapping, 2> memory_;
  std::array<Plane<Real>, 2> planes_;
  std::size_t current_ = 0;
};

// A hash of this rank's part of the field. The sum of all parts, modulo 2^64, is the same whatever the grid: each point
// adds SplitMix64's finaliser (Steele, Lea, Flood 2014) over its global number and its bits.
template <class Real>
[[nodiscard]] std::uint64_t hash_of(const Field<Real>& field, const Grid& grid, Team& team);

// The largest deviation of this rank's points from the exact solution of the continuous problem.
template <class Real>
[[nodiscard]] double error_of(const Field<Real>& field, const Grid& grid, Team& team);

// Global column and row of the first point of this rank that is no finite number.
template <class Real>
[[nodiscard]] std::optional<std::array<std::int64_t, 2>> first_broken(const Field<Real>& field, const Grid& grid);

}  // namespace volley::jacobi
