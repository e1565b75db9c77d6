// The answer to --about.
#pragma once

#include <span>
#include <string>

#include "record/json.hpp"
#include "transport/transport_entry.hpp"

namespace volley {

// What the engine was built from, its transports, and the sections of GPU matrices.
[[nodiscard]] Json about(const std::string& mpi_built, std::span<const TransportEntry> transports);

}  // namespace volley
