// Words by which devices signal each other, and a device and its host: flags with a message's number, and lines that
// contain data and number together.
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

}  // namespace volley::gpu::kernels
