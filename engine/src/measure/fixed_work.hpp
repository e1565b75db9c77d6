// A fixed piece of work. How long it takes shows how fast the CPU is right now: its clock frequency, and what else runs
// on the core.
#pragma once

namespace volley {

// Seconds of one pass: some microseconds of integer arithmetic in registers, the same in every call. It reads and
// writes no memory, so that it leaves the caches as they are.
[[nodiscard]] double fixed_work_s();

}  // namespace volley
