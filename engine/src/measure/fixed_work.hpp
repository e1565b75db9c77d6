// A fixed piece of work. Its time shows how fast the CPU is at present: the clock frequency, and other work on the
// core.
#pragma once

namespace volley {

// Seconds of one pass: some microseconds of integer arithmetic in registers, the same in every call. It uses no memory,
// so that caches stay as they are.
[[nodiscard]] double fixed_work_s();

}  // namespace volley
