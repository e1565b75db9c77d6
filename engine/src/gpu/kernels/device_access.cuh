// How the kernels of `device` touch memory: each access is one instruction that is issued where it stands.
//
// The compiler may neither merge nor drop nor move these: a window stores the same bytes to the same place once a
// message, and every message must really be loaded from the send buffer.
#pragma once

#include <cuda/atomic>

#include <cstddef>
#include <cstdint>

namespace volley::device {

// 16 bytes that travel as one store and carry 8 bytes of a message: each 64-bit word holds 4 bytes of the message (low
// half) and the message's number (high half).
//
// Data and number arrive together because they are one scalar: PTX ISA, "Memory Consistency Model", relates operations
// on scalars of up to 64 bits, which are indivisible, and treats a vector as its scalars in an unspecified order. So a
// reader that finds the number in both words has the data, without a fence on either side. This is what NCCL's
// low-latency protocol does (nccl/src/device/prims_ll.h, four 32-bit elements there).
struct alignas(16) Line {
  std::uint64_t words[2];
};

__device__ inline void store_line(Line* to, const Line& line) {
  asm volatile("st.relaxed.sys.global.v2.b64 [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(to)), "l"(line.words[0]),
               "l"(line.words[1])
               : "memory");
}

__device__ inline Line load_line(const Line* from) {
  Line line;
  asm volatile("ld.relaxed.sys.global.v2.b64 {%0, %1}, [%2];"
               : "=l"(line.words[0]), "=l"(line.words[1])
               : "l"(__cvta_generic_to_global(from))
               : "memory");
  return line;
}

// Weak accesses to the message's bytes. They may be cached in L1, but not in the read-only cache: in a run with one
// buffer both ways the other device writes what is loaded here.
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

__device__ inline std::uint8_t load(const std::uint8_t* from) {
  std::uint32_t value;
  asm volatile("ld.global.u8 %0, [%1];" : "=r"(value) : "l"(__cvta_generic_to_global(from)) : "memory");
  return static_cast<std::uint8_t>(value);
}

__device__ inline void store(std::uint8_t* to, std::uint8_t value) {
  asm volatile("st.global.u8 [%0], %1;" ::"l"(__cvta_generic_to_global(to)), "r"(std::uint32_t{value}) : "memory");
}

// A word through which two devices, or a device and its host, tell each other something.
template <class Word>
using SystemAtomic = cuda::atomic_ref<Word, cuda::thread_scope_system>;

// Nanoseconds since some moment, the same on all multiprocessors of a device.
__device__ inline std::uint64_t now_ns() {
  std::uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

}  // namespace volley::device
