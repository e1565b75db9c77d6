// Variables of a library that this engine sets before it opens the library, unless the user has set them.
#pragma once

#include <cstdlib>
#include <span>
#include <string>

#include "record/facts.hpp"

namespace volley {

struct SafeSetting {
  const char* name;
  const char* value;
};

inline void apply(std::span<const SafeSetting> settings) {
  for (const auto& [name, value] : settings) setenv(name, value, /*overwrite*/ 0);
}

// Adds what is set to the facts of a transport.
inline void add_settings(Facts& facts, std::span<const SafeSetting> settings) {
  for (const auto& [name, value] : settings) {
    const char* const set = std::getenv(name);
    facts.emplace_back(name, set == nullptr ? "" : set);
  }
}

}  // namespace volley
