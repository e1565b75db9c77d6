// A fault on purpose around any transport: its messages (measure/faults.hpp), its halos and its opening.
#pragma once

#include <memory>

#include "measure/faults.hpp"
#include "transport/transport.hpp"

namespace volley {

// `memory`: where the transport's messages are.
[[nodiscard]] std::unique_ptr<Transport> with_fault(std::unique_ptr<Transport> transport, Fault fault,
                                                    MemoryKind memory);

// What a rank of the group does by `hang` and `delay`.
[[nodiscard]] FaultyDriver::Rank faulty_rank(const RankGroup& group);

}  // namespace volley
