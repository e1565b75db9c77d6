// Loads, stores and copies of a message's bytes: each access is one instruction that is issued where it stands.
//
// The compiler must not merge, remove or move them: in a window every message is loaded from the same send buffer and
// stored to the same place, and each of these accesses must happen.
#pragma once

#include <cstddef>
#include <cstdint>

namespace volley::gpu::kernels {

// Weak accesses. They may be cached in L1, but not in the read-only cache: if one buffer is used in both directions,
// the other device writes what is loaded here.
__device__ inline uint4 load(const uint4* from) {
  uint4 value;
  asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(__cvta_generic_to_global(from))
               : "memory");
  return value;
}

__device__ inline void store(uint4* to, const uint4& value) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)), "r"(value.x),
               "r"(value.y), "r"(value.z), "r"(value.w)
               : "memory");
}

__device__ inline std::uint64_t load(const std::uint64_t* from) {
  std::uint64_t value;
  asm volatile("ld.global.u64 %0, [%1];" : "=l"(value) : "l"(__cvta_generic_to_global(from)) : "memory");
  return value;
}

__device__ inline void store(std::uint64_t* to, std::uint64_t value) {
  asm volatile("st.global.u64 [%0], %1;" ::"l"(__cvta_generic_to_global(to)), "l"(value) : "memory");
}

__device__ inline std::uint32_t load(const std::uint32_t* from) {
  std::uint32_t value;
  asm volatile("ld.global.u32 %0, [%1];" : "=r"(value) : "l"(__cvta_generic_to_global(from)) : "memory");
  return value;
}

__device__ inline void store(std::uint32_t* to, std::uint32_t value) {
  asm volatile("st.global.u32 [%0], %1;" ::"l"(__cvta_generic_to_global(to)), "r"(value) : "memory");
}

__device__ inline std::uint8_t load(const std::uint8_t* from) {
  std::uint32_t value;
  asm volatile("ld.global.u8 %0, [%1];" : "=r"(value) : "l"(__cvta_generic_to_global(from)) : "memory");
  return static_cast<std::uint8_t>(value);
}

__device__ inline void store(std::uint8_t* to, std::uint8_t value) {
  asm volatile("st.global.u8 [%0], %1;" ::"l"(__cvta_generic_to_global(to)), "r"(std::uint32_t{value}) : "memory");
}

// Copies `in_flight` units of a thread, `step` units apart. All loads are issued before the first store, so that the
// thread waits for memory only once. `checked`: leaves out units after the end.
template <int in_flight, bool checked, class Unit>
__device__ void copy_batch(const Unit* from, Unit* to, std::uint64_t first, std::uint64_t step, std::uint64_t units) {
  Unit loaded[in_flight];
#pragma unroll
  for (int i = 0; i < in_flight; ++i) {
    if (!checked || first + i * step < units) loaded[i] = load(from + first + i * step);
  }
#pragma unroll
  for (int i = 0; i < in_flight; ++i) {
    if (!checked || first + i * step < units) store(to + first + i * step, loaded[i]);
  }
}

// Copies `units` units, spread over all threads of the grid.
template <int in_flight, class Unit>
__device__ void copy(const Unit* from, Unit* to, std::uint64_t units) {
  const std::uint64_t threads = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t first = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; first < units;
       first += in_flight * threads) {
    copy_batch<in_flight, true>(from, to, first, threads, units);
  }
}

// The vectors of 16 bytes that copy_bytes() copies of a message: none if it is not aligned.
__device__ inline std::uint64_t vectors_in(const std::byte* from, const std::byte* to, std::uint64_t bytes) {
  const auto misaligned =
      (reinterpret_cast<std::uintptr_t>(from) | reinterpret_cast<std::uintptr_t>(to)) % sizeof(uint4);
  return misaligned != 0 ? 0 : bytes / sizeof(uint4);
}

// Copies a message with all threads of the grid: this many vectors, then bytes. A thread has 128 in flight.
__device__ inline void copy_bytes(const std::byte* from, std::byte* to, std::uint64_t bytes, std::uint64_t vectors) {
  constexpr int in_flight = 8;
  const std::uint64_t done = vectors * sizeof(uint4);
  copy<in_flight>(reinterpret_cast<const uint4*>(from), reinterpret_cast<uint4*>(to), vectors);
  copy<in_flight>(reinterpret_cast<const std::uint8_t*>(from + done), reinterpret_cast<std::uint8_t*>(to + done),
                  bytes - done);
}

}  // namespace volley::gpu::kernels
