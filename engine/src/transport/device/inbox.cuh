// What kernels of two devices share that exchange messages without their hosts: an inbox in each device's memory, lines
// in it that carry a part of a message and its number, and the parameters of a launch.
#pragma once

#include "gpu/kernels/copy.cuh"
#include "gpu/kernels/poll.cuh"
#include "host/pattern.hpp"
#include "transport/device/shape.hpp"

namespace volley::device {

using namespace gpu::kernels;

constexpr unsigned max_blocks = warp_threads;  // of `arrived`: one lane of a warp polls each block's word

constexpr unsigned max_line_blocks = 16;  // of a message: a cluster has at most so many on any device
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

// The parameters of a launch.
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
  PeerWait wait;
};

// The place of the first message of exchange (or window) `turn`, counted from 1: so many bytes after the place of the
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

// Waits until the other device has acknowledged window (or message) `number`.
__device__ inline bool await_acknowledgement(const Launch& launch, std::uint64_t number) {
  bool good = true;
  if (threadIdx.x == 0) {
    good = await_peer(launch.wait, number, [&] { return is_raised(launch.inbox->acknowledged, number); });
  }
  return __syncthreads_and(good);
}

}  // namespace volley::device
