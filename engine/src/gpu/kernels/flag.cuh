// Words by which devices signal each other, and a device and its host: flags with a message's number, and lines that
// contain data and number together.
#pragma once

#include <cuda/atomic>

#include <cstddef>
#include <cstdint>

namespace volley::gpu::kernels {

// A word that other devices or the host also read or write.
template <class Word>
using SystemAtomic = cuda::atomic_ref<Word, cuda::thread_scope_system>;

// Stores a number with release semantics. A thread for which `is_raised` then returns true sees all earlier stores of
// this thread, and all stores of others that this thread has seen (PTX ISA, "Causality order": a release is
// cumulative).
__host__ __device__ inline void raise(std::uint64_t& flag, std::uint64_t number) {
  SystemAtomic<std::uint64_t>(flag).store(number, cuda::memory_order_release);
}

__host__ __device__ inline bool is_raised(std::uint64_t& flag, std::uint64_t number) {
  return SystemAtomic<std::uint64_t>(flag).load(cuda::memory_order_acquire) >= number;
}

// 16 bytes that one store writes, with 8 bytes of a message: each 64-bit word contains 4 bytes of the message (low
// half) and the low half of the message's number (high half).
//
// Data and number arrive together because they are one scalar: PTX ISA, "Memory Consistency Model", relates operations
// on scalars of up to 64 bits, which are indivisible, and treats a vector as its scalars in an unspecified order. So a
// reader that finds the number in both words has the data, without a fence on either side. This is what NCCL's
// low-latency protocol does (nccl/src/device/prims_ll.h, four 32-bit elements there).
struct alignas(16) FlaggedLine {
  std::uint64_t words[2];
};

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
