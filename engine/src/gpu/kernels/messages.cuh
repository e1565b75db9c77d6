// Messages between kernels of two devices: copies, the shape of a launch, its parameters, an inbox in each device's
// memory, the words of a message, and the ping-pong of single words.
#pragma once

#include <algorithm>

#include "gpu/kernels/flag.cuh"
#include "messages/memory.hpp"

namespace volley::gpu::kernels {

// --- loads, stores and copies of a message's bytes: each access is one instruction that is issued where it stands ---
//
// The compiler must not merge, remove or move them: in a window every message is loaded from the same send buffer and
// stored to the same place, and each of these accesses must happen.

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

#define VOLLEY_WEAK_ACCESSES(Unit, Register, constraint, type)                                                   \
  __device__ inline Unit load(const Unit* from) {                                                                \
    Register value;                                                                                              \
    asm volatile("ld.global." type " %0, [%1];"                                                                  \
                 : "=" constraint(value)                                                                         \
                 : "l"(__cvta_generic_to_global(from))                                                           \
                 : "memory");                                                                                    \
    return static_cast<Unit>(value);                                                                             \
  }                                                                                                              \
  __device__ inline void store(Unit* to, Unit value) {                                                           \
    asm volatile("st.global." type " [%0], %1;" ::"l"(__cvta_generic_to_global(to)), constraint(Register{value}) \
                 : "memory");                                                                                    \
  }
VOLLEY_WEAK_ACCESSES(std::uint64_t, std::uint64_t, "l", "u64")
VOLLEY_WEAK_ACCESSES(std::uint32_t, std::uint32_t, "r", "u32")
VOLLEY_WEAK_ACCESSES(std::uint8_t, std::uint32_t, "r", "u8")
#undef VOLLEY_WEAK_ACCESSES

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

// --- launches ---

constexpr unsigned warp_threads = 32;
constexpr unsigned max_threads = 1024;

constexpr std::size_t vector_bytes = 16;

// The smallest part of a long message for a block: one vector of 16 bytes for each of 256 threads.
constexpr std::size_t min_share_bytes = 4096;

struct Shape {
  unsigned blocks = 1;
  unsigned threads = warp_threads;
};

// Threads of a block that make this many accesses, one each if a block can have as many: whole warps.
constexpr unsigned threads_for(std::size_t accesses) {
  return static_cast<unsigned>(std::clamp<std::size_t>(round_up(accesses, warp_threads), warp_threads, max_threads));
}

// Uses all blocks before more than 256 threads in each, and all threads before more than one vector for each: with more
// multiprocessors and threads a message of medium length takes less time. The link limits long ones.
constexpr Shape long_shape(std::size_t bytes, unsigned max_blocks) {
  const auto blocks = std::clamp<std::size_t>(round_up(bytes, min_share_bytes) / min_share_bytes, 1, max_blocks);
  const unsigned threads = threads_for(round_up(bytes / blocks, vector_bytes) / vector_bytes);
  // At least a warp: one of its lanes polls each block's word.
  return {static_cast<unsigned>(blocks), std::max(threads, warp_threads)};
}

constexpr unsigned max_blocks = warp_threads;  // of `arrived`: one lane of a warp polls each block's word

constexpr unsigned max_line_blocks = 16;  // of a message: a cluster has at most this many on any device
constexpr unsigned max_lines = max_line_blocks * max_threads;

static_assert(message_step_bytes % vector_bytes == 0 && guard_bytes % vector_bytes == 0,
              "every message of a launch is aligned like the first one");

// In the memory of the device that polls it. The other device writes everything except the last word.
struct Inbox {
  FlaggedLine lines[max_lines];
  alignas(128) std::uint64_t arrived[max_blocks];  // number of the last message that the sender's block stored whole
  alignas(128) std::uint64_t acknowledged;         // number of the last window that the receiver has received
  alignas(128) std::uint64_t halo_arrived;         // number of the last halo that is whole
  alignas(128) std::uint64_t gave_up;              // the other device has given up waiting
  alignas(128) unsigned halo_blocks_stored;        // of this device's own halo: blocks that have stored their part
};

// When a message was sent: by the clock of the multiprocessor, and by that of the device where a launch begins or ends.
struct MessageStamp {
  long long clock;
  std::uint64_t ns;
};

struct Launch {
  const std::byte* send;
  std::byte* recv;
  std::byte* recv_there;  // the other rank's recv, mapped here
  std::uint64_t bytes;
  std::uint64_t last_offset;  // from `send` to the place of the last message (or window)
  std::uint64_t stride;       // from one message to the next, in all three places; 0 in timed launches
  Inbox* inbox;
  Inbox* inbox_there;
  std::uint64_t last;   // number of the last message (or window) of earlier launches
  std::uint64_t count;  // exchanges (or windows) to make
  int window_messages;
  bool leads;
  bool sends;  // in windows
  bool receives;
  MessageStamp* stamps;  // of each exchange, on the device that leads; null: none are taken
  PeerWait wait;
};

// Called by the threads that have sent message `exchange`: one of them stores the stamp while the message is under way.
// Kernels have a variant without: a branch for it makes `device` 2 to 4 % slower (two H200s).
template <bool stamped>
__device__ void stamp(const Launch& launch, std::uint64_t exchange) {
  if constexpr (stamped) {
    if (threadIdx.x != 0 || blockIdx.x != 0) return;
    const long long clock = clock64();
    const bool at_an_end = exchange == 1 || exchange == launch.count;
    launch.stamps[exchange - 1] = {clock, at_an_end ? now_ns() : 0};
  }
}

// The place of the first message of exchange (or window) `turn`, counted from 1: this many bytes after the place of the
// launch's first message. Kernels compute it before they wait for a message, so that the answer does not wait for it.
__device__ inline std::uint64_t recv_offset(const Launch& launch, std::uint64_t turn) {
  return (turn - 1) * static_cast<std::uint64_t>(launch.window_messages) * launch.stride;
}

__device__ inline std::uint64_t send_offset(const Launch& launch, std::uint64_t turn) {
  return recv_offset(launch, turn) + (turn == launch.count ? launch.last_offset : 0);
}

// --- a word of a message ---------------------------------------------------------------------------------------------

// The place of one word of the first message, or of what is left of it. It is computed once for each launch, because
// every instruction between a message and its answer increases the latency.
template <class Word>
struct MessageWord {
  const std::byte* from;
  std::byte* to;
  unsigned bytes;   // of the message: all of the word, or what is left of it, or 0, where the message has no such word
  bool whole_from;  // an aligned word
  bool whole_to;
};

template <class Word>
__device__ bool is_whole(const std::byte* at, unsigned bytes) {
  return bytes == sizeof(Word) && reinterpret_cast<std::uintptr_t>(at) % sizeof(Word) == 0;
}

// The word that begins `offset` bytes after the beginning of the message.
template <class Word>
__device__ MessageWord<Word> message_word(const Launch& launch, std::uint64_t offset) {
  const std::uint64_t left = offset < launch.bytes ? launch.bytes - offset : 0;
  const unsigned bytes = left < sizeof(Word) ? static_cast<unsigned>(left) : unsigned{sizeof(Word)};
  const std::byte* const from = launch.send + offset;
  std::byte* const to = launch.recv + offset;
  return {from, to, bytes, is_whole<Word>(from, bytes), is_whole<Word>(to, bytes)};
}

// Loads the word of the message at send_offset() `offset`.
template <class Word>
__device__ Word gather(const MessageWord<Word>& mine, std::uint64_t offset) {
  const std::byte* const from = mine.from + offset;
  if (mine.whole_from) return load(reinterpret_cast<const Word*>(from));
  Word data = 0;
  for (unsigned byte = 0; byte < mine.bytes; ++byte) {
    data |= Word{load(reinterpret_cast<const std::uint8_t*>(from) + byte)} << (8 * byte);
  }
  return data;
}

// Stores the word of the message at recv_offset() `offset`.
template <class Word>
__device__ void scatter(const MessageWord<Word>& mine, std::uint64_t offset, Word data) {
  std::byte* const to = mine.to + offset;
  if (mine.whole_to) {
    store(reinterpret_cast<Word*>(to), data);
    return;
  }
  for (unsigned byte = 0; byte < mine.bytes; ++byte) {
    store(reinterpret_cast<std::uint8_t*>(to) + byte, static_cast<std::uint8_t>(data >> (8 * byte)));
  }
}

// Waits with all threads of the block, one of them for each of `words`, until `ready(word)` says that the other device
// has written `number` there; false if one of them gave up. At most as many words as threads.
template <class Ready>
__device__ bool await_words(const PeerWait& wait, unsigned words, std::uint64_t number, const Ready& ready) {
  bool good = true;
  if (threadIdx.x < words) good = await_peer(wait, number, [&] { return ready(threadIdx.x); });
  return __syncthreads_and(good);
}

// Waits until the other device has acknowledged window (or message) `number`.
__device__ inline bool await_acknowledgement(const Launch& launch, std::uint64_t number) {
  return await_words(launch.wait, 1, number, [&](unsigned) { return is_raised(launch.inbox->acknowledged, number); });
}

// --- a ping-pong of words ---

// Copies a line's data to their place in the message at recv_offset() `offset`; false if the line did not arrive.
__device__ inline bool receive_word(const PeerWait& wait, const FlaggedLine* line,
                                    const MessageWord<std::uint64_t>& mine, std::uint64_t offset,
                                    std::uint32_t number) {
  FlaggedLine found;
  const bool good = await_peer(wait, number, [&] {
    found = load_line(line);
    return carries(found, number);
  });
  if (good) scatter(mine, offset, data_of(found));
  return good;
}

// A ping-pong of words: one thread stores the message together with its number, 16 bytes in one instruction, into the
// other device's memory, and polls the answer in its own. The answer is loaded when the message is in its place.
template <class Word, bool stamped>
__global__ void word_round_trips(const Launch launch) {
  const auto mine = message_word<Word>(launch, 0);
  const auto send = [&](std::uint64_t exchange, std::uint64_t offset) {
    const auto number = static_cast<std::uint32_t>(launch.last + exchange);
    store_line(launch.inbox_there->lines, flagged(gather(mine, offset), number));
    stamp<stamped>(launch, exchange);
  };
  if (launch.leads && launch.count > 0) send(1, send_offset(launch, 1));
  for (std::uint64_t exchange = 1; exchange <= launch.count; ++exchange) {
    const std::uint64_t next = launch.leads ? exchange + 1 : exchange;
    const std::uint64_t from = send_offset(launch, next);
    const std::uint64_t to = recv_offset(launch, exchange);
    const auto number = static_cast<std::uint32_t>(launch.last + exchange);
    if (!receive_word(launch.wait, launch.inbox->lines, mine, to, number)) return;
    if (next <= launch.count) send(next, from);
  }
}

}  // namespace volley::gpu::kernels
