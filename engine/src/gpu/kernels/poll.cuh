// Waiting within a kernel, always with a deadline, so that no kernel waits for ever.
#pragma once

#include "gpu/kernels/flag.cuh"

namespace volley::gpu::kernels {

enum class PollStatus : std::uint64_t { ready, timed_out, peer_gave_up };

// Nanoseconds from a fixed time, the same on all multiprocessors of a device.
__device__ inline std::uint64_t now_ns() {
  std::uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

// Polls until `ready()` is true; returns false if it gave up. After every `polls_per_check` polls it reads the clock
// and calls `gives_up(expired)`, which decides whether waiting ends. The timeout starts at the first of these readings.
// The inner loop only polls: every instruction between two polls is part of the latency.
template <unsigned polls_per_check, class Ready, class GivesUp>
__device__ bool poll(std::uint64_t timeout_ns, const Ready& ready, const GivesUp& gives_up) {
  for (std::uint64_t deadline_ns = 0;;) {
    for (unsigned polls = 0; polls < polls_per_check; ++polls) {
      if (ready()) return true;
    }
    const std::uint64_t now = now_ns();
    if (deadline_ns == 0) deadline_ns = now + timeout_ns;
    if (gives_up(now >= deadline_ns)) return false;
  }
}

// In this rank's host memory: the message that a kernel waited for in vain. All kernels end when the status is not
// `ready`.
struct PollReport {
  PollStatus status;
  std::uint64_t number;
};

// How a kernel waits for a kernel of another device. A kernel that gives up tells its host and the other device.
struct PeerWait {
  PollReport* report;
  std::uint64_t* peer_gave_up;  // in this device's memory; the other device writes it
  std::uint64_t* gave_up;       // the same word in the other device's memory
  std::uint64_t timeout_ns;
};

// Reading the clock and the host's memory takes about a microsecond, a poll of this device's memory a quarter of that.
constexpr unsigned polls_per_peer_check = 4096;

// Polls until message `number` is `ready()`; false if this device or the other one has given up.
template <class Ready>
__device__ bool await_peer(const PeerWait& wait, std::uint64_t number, const Ready& ready) {
  return poll<polls_per_peer_check>(wait.timeout_ns, ready, [&](bool expired) {
    if (load_relaxed(wait.report->status) != PollStatus::ready) return true;
    const bool peer_gave_up = load_relaxed(*wait.peer_gave_up) != 0;
    if (!peer_gave_up && !expired) return false;
    store_relaxed(wait.report->number, number);
    store_release(wait.report->status, peer_gave_up ? PollStatus::peer_gave_up : PollStatus::timed_out);
    store_relaxed(*wait.gave_up, std::uint64_t{1});
    return true;
  });
}

}  // namespace volley::gpu::kernels
