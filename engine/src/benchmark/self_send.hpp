// One rank that sends to itself: what can be tried where nobody else can be started.
#pragma once

#include <string>

#include "group/context.hpp"
#include "record/plan.hpp"
#include "transport/registry.hpp"

namespace volley {

// Sends one message of each of the plan's sizes through the transport, from this rank to itself, and checks it. Returns
// why that cannot be done or what went wrong; empty when all arrived. A job of one rank only.
[[nodiscard]] std::string sent_to_itself(const Context& context, const Plan& plan, const TransportEntry& entry);

}  // namespace volley
