// The answer to --about.
#pragma once

#include "record/json.hpp"

namespace volley {

// What the engine was built from, its transports, and the sections of the GPU matrix.
[[nodiscard]] Json about();

}  // namespace volley
