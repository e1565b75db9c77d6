// Words by which devices signal each other, and a device and its host: flags with a message's number, and lines that
// contain data and number together. Waiting for them, always with a deadline, so that no kernel waits for ever.
#pragma once

#include <cstdint>

namespace volley::gpu::kernels {

// Words of 64 bits that other devices or the host also read or write. Each access is one instruction, indivisible, with
// the scope of the system (PTX ISA: "ld", "st"; "Memory Consistency Model", "Scope"). `volatile` and "memory": the
// compiler moves no other access past it, and each turn of a loop loads again. cuda::atomic_ref uses the same
// instructions, but its header takes longer to compile than all else here. On the host std::atomic_ref does the same.
template <class Word>
__device__ Word load_relaxed(const Word& word) {
  static_assert(sizeof(Word) == sizeof(std::uint64_t));
  std::uint64_t value;
  asm volatile("ld.relaxed.sys.global.b64 %0, [%1];" : "=l"(value) : "l"(__cvta_generic_to_global(&word)) : "memory");
  return static_cast<Word>(value);
}

template <class Word>
__device__ void store_relaxed(Word& word, Word value) {
  static_assert(sizeof(Word) == sizeof(std::uint64_t));
  asm volatile("st.relaxed.sys.global.b64 [%0], %1;" ::"l"(__cvta_generic_to_global(&word)),
               "l"(static_cast<std::uint64_t>(value))
               : "memory");
}

template <class Word>
__device__ void store_release(Word& word, Word value) {
  static_assert(sizeof(Word) == sizeof(std::uint64_t));
  asm volatile("st.release.sys.global.b64 [%0], %1;" ::"l"(__cvta_generic_to_global(&word)),
               "l"(static_cast<std::uint64_t>(value))
               : "memory");
}

// A thread for which `is_raised` returns true sees all stores that the thread that raised the flag made before, and all
// stores of others that this one had seen (PTX ISA, "Causality order": a release is cumulative).
__device__ inline void raise(std::uint64_t& flag, std::uint64_t number) { store_release(flag, number); }

__device__ inline bool is_raised(const std::uint64_t& flag, std::uint64_t number) {
  std::uint64_t value;
  asm volatile("ld.acquire.sys.global.b64 %0, [%1];" : "=l"(value) : "l"(__cvta_generic_to_global(&flag)) : "memory");
  return value >= number;
}

// 16 bytes that one store writes: a part of a message, and the low bits of the message's number in each 64-bit word.
//
// Data and number arrive together because they are one scalar: PTX ISA, "Memory Consistency Model", relates operations
// on scalars of up to 64 bits, which are indivisible, and treats a vector as its scalars in an unspecified order. So a
// reader that finds the number in both words has the data, without a fence on either side. This is what NCCL's
// low-latency protocol does (nccl/src/device/prims_ll.h, four 32-bit elements there).
struct alignas(16) FlaggedLine {
  std::uint64_t words[2];
};

// 8 bytes of a message, and 32 bits of its number: half of each word.
__device__ inline FlaggedLine flagged(std::uint64_t data, std::uint32_t number) {
  const std::uint64_t flag = std::uint64_t{number} << 32;
  return {flag | (data & 0xFFFFFFFFU), flag | data >> 32};
}

__device__ inline bool carries(const FlaggedLine& line, std::uint32_t number) {
  return static_cast<std::uint32_t>(line.words[0] >> 32) == number &&
         static_cast<std::uint32_t>(line.words[1] >> 32) == number;
}

__device__ inline std::uint64_t data_of(const FlaggedLine& line) {
  return (line.words[0] & 0xFFFFFFFFU) | line.words[1] << 32;
}

// 12 bytes of a message, and 16 bits of its number: two thirds of the lines of `flagged`. Only where every message
// writes the same lines: a line that was not written for 65,536 messages has the number that is awaited.
struct PackedData {
  std::uint64_t head;
  std::uint32_t tail;
};

__device__ inline FlaggedLine packed(const PackedData& data, std::uint16_t number) {
  const std::uint64_t flag = std::uint64_t{number} << 48;
  return {flag | std::uint64_t{data.tail & 0xFFFFU} << 32 | (data.head & 0xFFFFFFFFU),
          flag | std::uint64_t{data.tail >> 16} << 32 | data.head >> 32};
}

__device__ inline bool carries_packed(const FlaggedLine& line, std::uint16_t number) {
  return line.words[0] >> 48 == number && line.words[1] >> 48 == number;
}

__device__ inline PackedData packed_data_of(const FlaggedLine& line) {
  return {(line.words[0] & 0xFFFFFFFFU) | line.words[1] << 32,
          static_cast<std::uint32_t>(line.words[0] >> 32 & 0xFFFFU) |
              static_cast<std::uint32_t>(line.words[1] >> 32 & 0xFFFFU) << 16};
}

__device__ inline void store_line(FlaggedLine* to, const FlaggedLine& line) {
  asm volatile("st.relaxed.sys.global.v2.b64 [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(to)), "l"(line.words[0]),
               "l"(line.words[1])
               : "memory");
}

__device__ inline FlaggedLine load_line(const FlaggedLine* from) {
  FlaggedLine line;
  asm volatile("ld.relaxed.sys.global.v2.b64 {%0, %1}, [%2];"
               : "=l"(line.words[0]), "=l"(line.words[1])
               : "l"(__cvta_generic_to_global(from))
               : "memory");
  return line;
}

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

// In this rank's host memory: the message that a kernel waited for in vain. All kernels end unless it is `ready`.
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
