// What kernels of two devices share that exchange messages without their hosts: an inbox in each device's memory, lines
// in it that carry 8 bytes of a message and its number, and the parameters of a launch.
#pragma once

#include "gpu/kernels/copy.cuh"
#include "gpu/kernels/poll.cuh"
#include "transport/device/shape.hpp"

namespace volley::device {

using namespace gpu::kernels;

constexpr unsigned max_blocks = warp_threads;  // of `arrived`: one lane of a warp polls each block's word

constexpr unsigned payload_bytes = 8;  // of a line
constexpr unsigned max_lines = 8192;

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
  std::uint64_t stride;       // from one message of a window to the next, in all three places
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

// --- a line of a message ---------------------------------------------------------------------------------------------

// The places of the data that one thread moves with each message. They are computed once for each launch, because every
// instruction between a message and its answer increases the latency.
struct MessageLine {
  const std::byte* from;
  std::byte* to;
  unsigned bytes;  // of the message: 8, or what is left of it, or 0, where the message has no such line
  bool word_from;  // 8 aligned bytes
  bool word_to;
};

__device__ inline bool whole_word(const std::byte* at, unsigned bytes) {
  return bytes == payload_bytes && reinterpret_cast<std::uintptr_t>(at) % payload_bytes == 0;
}

__device__ inline MessageLine message_line(const Launch& launch, unsigned line) {
  const std::uint64_t offset = std::uint64_t{line} * payload_bytes;
  const std::uint64_t left = offset < launch.bytes ? launch.bytes - offset : 0;
  const unsigned bytes = left < payload_bytes ? static_cast<unsigned>(left) : payload_bytes;
  const std::byte* const from = launch.send + offset;
  std::byte* const to = launch.recv + offset;
  return {from, to, bytes, whole_word(from, bytes), whole_word(to, bytes)};
}

// The line's data, `offset` bytes behind its usual place: a multiple of 8.
__device__ inline std::uint64_t gather(const MessageLine& mine, std::uint64_t offset) {
  const std::byte* const from = mine.from + offset;
  if (mine.word_from) return load(reinterpret_cast<const std::uint64_t*>(from));
  std::uint64_t data = 0;
  for (unsigned byte = 0; byte < mine.bytes; ++byte) {
    data |= std::uint64_t{load(reinterpret_cast<const std::uint8_t*>(from) + byte)} << (8 * byte);
  }
  return data;
}

__device__ inline void scatter(const MessageLine& mine, std::uint64_t data) {
  if (mine.word_to) {
    store(reinterpret_cast<std::uint64_t*>(mine.to), data);
    return;
  }
  for (unsigned byte = 0; byte < mine.bytes; ++byte) {
    store(reinterpret_cast<std::uint8_t*>(mine.to) + byte, static_cast<std::uint8_t>(data >> (8 * byte)));
  }
}

// Copies the data of a line to their place. Returns false if the line did not arrive.
__device__ inline bool receive_line(const PeerWait& wait, const FlaggedLine* line, const MessageLine& mine,
                                    std::uint32_t number) {
  FlaggedLine found;
  const bool good = await_peer(wait, number, [&] {
    found = load_line(line);
    return carries(found, number);
  });
  if (good) scatter(mine, data_of(found));
  return good;
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
