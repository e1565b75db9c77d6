// Multiples of a unit.
#pragma once

#include <type_traits>

namespace volley {

// The smallest multiple of `unit` that is at least `value`.
template <class Number>
[[nodiscard]] constexpr Number round_up(Number value, std::type_identity_t<Number> unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace volley
