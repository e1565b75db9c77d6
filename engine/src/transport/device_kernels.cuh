// The kernels of `device`: both devices run one, and they exchange messages with nobody's help until they are done.
//
// A message goes one of two ways:
//
//   short: every 16 bytes stored carry 8 bytes of the message with the message's number beside them
//   (device_access.cuh).
//     They go to an inbox in the receiver's memory. The receiver polls each of them, and puts the data in its place. No
//     fence, one way through the wire; but half of the wire, and one block: with several, only a grid-wide barrier
//     would tell that the whole message is in its place, which costs as much as the fence of the other way.
//
//   long: several blocks store straight to the message's place in the receiver's memory. When a block's threads have
//     all stored (__syncthreads), one of them stores the message's number in that block's word of the receiver's inbox
//     with release semantics at system scope; the release is cumulative (PTX ISA, "Causality order"), so it covers what
//     the other threads stored before the barrier. *Every* block of the receiver waits until it has acquired the words
//     of *all* blocks of the sender. So every block knows by itself that the whole message has arrived, and no
//     grid-wide barrier is needed.
//
// In both, one number a message, which only increases while the inboxes are in use, tells a message from all earlier
// ones. One inbox is enough: a rank sends message n + 1 only after it has received the whole answer to message n, and
// the answer started only when every thread on the other side had taken message n out of the inbox.
#pragma once

#include "gpu/kernels/device_access.cuh"

namespace volley::device {

constexpr unsigned warp_threads = 32;
constexpr unsigned most_threads = 1024;
constexpr unsigned most_blocks = warp_threads;  // one lane of a warp polls each block's word

constexpr unsigned payload_bytes = 8;  // of a line
constexpr unsigned most_lines_per_thread = 2;
constexpr unsigned most_lines = most_threads * most_lines_per_thread;
constexpr unsigned short_bytes = most_lines * payload_bytes;  // a longer message goes the long way

// In the memory of the device that polls it; the other device writes into it.
struct Inbox {
  Line lines[most_lines];
  alignas(128) std::uint64_t arrived[most_blocks];  // number of the last message that the sender's block stored whole
  alignas(128) std::uint64_t acknowledged;          // number of the last window that the receiver has received
  alignas(128) std::uint32_t given_up;              // the other device waits no longer
};

// In host memory of this rank.
struct Verdict {
  enum : std::uint32_t { good, expired, deserted };
  std::uint32_t outcome;  // anything but `good` ends the kernel; the host may set it, too
  std::uint64_t number;   // of the message or window that was waited for
};

// What one launch does.
struct DeviceBatch {
  const std::byte* send;
  std::byte* recv;
  std::byte* recv_there;  // the other rank's recv, mapped here
  std::uint64_t bytes;
  std::uint64_t last_offset;  // the last long message (or window) leaves from so far behind `send`
  Inbox* inbox;
  Inbox* inbox_there;
  Verdict* verdict;
  std::uint64_t last;   // number of the last message (or window) of earlier launches
  std::uint64_t count;  // exchanges (or windows) to make
  int window;           // messages of a window
  bool leads;
  bool sends;  // in windows
  bool receives;
  std::uint64_t timeout_ns;
};

// One look at the clock and at the host's memory costs about a microsecond, a look at the inbox a quarter of one.
constexpr unsigned polls_between_looks = 4096;

// Why waiting makes no sense any longer; `good` while it does. `deadline_ns` is 0 before the first look.
__device__ inline std::uint32_t poll_status(const DeviceBatch& batch, std::uint64_t& deadline_ns) {
  const std::uint64_t now = now_ns();
  if (deadline_ns == 0) deadline_ns = now + batch.timeout_ns;
  if (const auto outcome = SystemAtomic(batch.verdict->outcome).load(cuda::memory_order_relaxed);
      outcome != Verdict::good) {
    return outcome;
  }
  if (SystemAtomic(batch.inbox->given_up).load(cuda::memory_order_relaxed) != 0) return Verdict::deserted;
  return now < deadline_ns ? Verdict::good : Verdict::expired;
}

// Ends this kernel, and the other device's.
__device__ inline void give_up(const DeviceBatch& batch, std::uint32_t outcome, std::uint64_t number) {
  SystemAtomic(batch.verdict->number).store(number, cuda::memory_order_relaxed);
  SystemAtomic(batch.verdict->outcome).store(outcome, cuda::memory_order_relaxed);
  SystemAtomic(batch.inbox_there->given_up).store(1, cuda::memory_order_relaxed);
}

// Polls until `ready`, a message's arrival; false when this device or the other one has given up.
template <class Ready>
__device__ bool await(const DeviceBatch& batch, std::uint64_t number, Ready ready) {
  std::uint64_t deadline_ns = 0;
  for (unsigned polls = 1; !ready(); ++polls) {
    if (polls % polls_between_looks != 0) continue;
    if (const auto outcome = poll_status(batch, deadline_ns); outcome != Verdict::good) {
      give_up(batch, outcome, number);
      return false;
    }
  }
  return true;
}

// Each thread of the block then sees what the others have stored before.
__device__ inline void wait_for_block() {
  if (blockDim.x == warp_threads) {
    __syncwarp();
  } else {
    __syncthreads();
  }
}

// --- short messages --------------------------------------------------------------------------------------------------

__device__ inline std::uint64_t word_of(std::uint32_t data, std::uint32_t number) {
  return std::uint64_t{number} << 32 | data;
}

__device__ inline bool carries(const Line& line, std::uint32_t number) {
  return static_cast<std::uint32_t>(line.words[0] >> 32) == number &&
         static_cast<std::uint32_t>(line.words[1] >> 32) == number;
}

// What a thread does with one line of every message: where the data lies, and the lines that it goes and comes in.
// It is worked out once a launch, because every instruction between a message and its answer shows in the latency.
struct LineShare {
  const std::byte* from;
  std::byte* to;
  const Line* here;
  Line* there;
  unsigned bytes;  // of the message: 8, or what is left of it, or 0, where the thread has no such line
  bool word_from;  // 8 aligned bytes
  bool word_to;
};

__device__ inline bool whole_word(const std::byte* at, unsigned bytes) {
  return bytes == payload_bytes && reinterpret_cast<std::uintptr_t>(at) % payload_bytes == 0;
}

__device__ inline LineShare share_of(const DeviceBatch& batch, unsigned line) {
  const std::uint64_t offset = std::uint64_t{line} * payload_bytes;
  const std::uint64_t left = offset < batch.bytes ? batch.bytes - offset : 0;
  const unsigned bytes = left < payload_bytes ? static_cast<unsigned>(left) : payload_bytes;
  const std::byte* const from = batch.send + offset;
  std::byte* const to = batch.recv + offset;
  return {from,
          to,
          &batch.inbox->lines[line],
          &batch.inbox_there->lines[line],
          bytes,
          whole_word(from, bytes),
          whole_word(to, bytes)};
}

__device__ inline std::uint64_t gather(const LineShare& share) {
  if (share.word_from) return load(reinterpret_cast<const std::uint64_t*>(share.from));
  std::uint64_t data = 0;
  for (unsigned byte = 0; byte < share.bytes; ++byte) {
    data |= std::uint64_t{load(reinterpret_cast<const std::uint8_t*>(share.from) + byte)} << (8 * byte);
  }
  return data;
}

__device__ inline void scatter(const LineShare& share, std::uint64_t data) {
  if (share.word_to) {
    store(reinterpret_cast<std::uint64_t*>(share.to), data);
    return;
  }
  for (unsigned byte = 0; byte < share.bytes; ++byte) {
    store(reinterpret_cast<std::uint8_t*>(share.to) + byte, static_cast<std::uint8_t>(data >> (8 * byte)));
  }
}

template <unsigned lines>
__device__ void send_short(const LineShare (&shares)[lines], std::uint32_t number) {
#pragma unroll
  for (const LineShare& share : shares) {
    if (share.bytes == 0) break;
    const std::uint64_t data = gather(share);
    store_line(share.there, {word_of(static_cast<std::uint32_t>(data), number),
                             word_of(static_cast<std::uint32_t>(data >> 32), number)});
  }
}

// Returns when the whole message is in its place for every thread of the block, which alone will touch it. False where
// this thread's share did not come; the others find that out while they wait for the next message, so that no
// vote, which takes longer than a barrier, stands between a message and its answer.
template <unsigned lines>
__device__ bool receive_short(const DeviceBatch& batch, const LineShare (&shares)[lines], std::uint32_t number) {
  bool good = true;
#pragma unroll
  for (const LineShare& share : shares) {
    if (share.bytes == 0) break;
    Line found;
    good = good && await(batch, number, [&] {
             found = load_line(share.here);
             return carries(found, number);
           });
    if (good) scatter(share, (found.words[0] & 0xFFFFFFFFU) | found.words[1] << 32);
  }
  wait_for_block();
  return good;
}

// `lines` of them a thread.
template <unsigned lines>
__global__ void __launch_bounds__(most_threads, 1) short_round_trips(const DeviceBatch batch) {
  LineShare shares[lines];
#pragma unroll
  for (unsigned i = 0; i < lines; ++i) shares[i] = share_of(batch, threadIdx.x + i * blockDim.x);
  for (std::uint64_t exchange = 1; exchange <= batch.count; ++exchange) {
    const auto number = static_cast<std::uint32_t>(batch.last + exchange);
    if (batch.leads) send_short(shares, number);
    if (!receive_short(batch, shares, number)) return;
    if (!batch.leads) send_short(shares, number);
  }
}

// --- long messages ---------------------------------------------------------------------------------------------------

// Copies `units` units, spread over all threads of the grid. Eight loads of a thread are under way before its first
// store: a round trip to memory is then paid once for 128 bytes.
template <class Unit>
__device__ void copy(const std::byte* from, std::byte* to, std::uint64_t units) {
  constexpr int in_flight = 8;
  const auto* source = reinterpret_cast<const Unit*>(from);
  auto* target = reinterpret_cast<Unit*>(to);
  const std::uint64_t threads = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t first = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; first < units;
       first += in_flight * threads) {
    Unit held[in_flight];
#pragma unroll
    for (int i = 0; i < in_flight; ++i) {
      if (first + i * threads < units) held[i] = load(source + first + i * threads);
    }
#pragma unroll
    for (int i = 0; i < in_flight; ++i) {
      if (first + i * threads < units) store(target + first + i * threads, held[i]);
    }
  }
}

// Vectors, and single bytes for the rest. Buffers are page aligned, and the last message begins whole vectors behind
// the others; a message that is not aligned goes byte by byte.
__device__ inline void copy_message(const DeviceBatch& batch, const std::byte* from) {
  const auto misaligned =
      (reinterpret_cast<std::uintptr_t>(batch.send) | reinterpret_cast<std::uintptr_t>(batch.recv_there)) %
      sizeof(uint4);
  const std::uint64_t vectors = misaligned != 0 ? 0 : batch.bytes / sizeof(uint4);
  const std::uint64_t done = vectors * sizeof(uint4);
  copy<uint4>(from, batch.recv_there, vectors);
  copy<std::uint8_t>(from + done, batch.recv_there + done, batch.bytes - done);
}

// Tells the other device that what this block's threads have stored is there.
__device__ inline void announce(const DeviceBatch& batch, std::uint64_t number) {
  __syncthreads();
  if (threadIdx.x == 0) SystemAtomic(batch.inbox_there->arrived[blockIdx.x]).store(number, cuda::memory_order_release);
}

// Returns when all blocks of the other device have announced message `number`: the whole message is in its place.
// Both devices launch grids of one size.
__device__ inline bool receive_long(const DeviceBatch& batch, std::uint64_t number) {
  bool good = true;
  if (threadIdx.x < gridDim.x) {
    good = await(batch, number, [&] {
      return SystemAtomic(batch.inbox->arrived[threadIdx.x]).load(cuda::memory_order_acquire) >= number;
    });
  }
  return __syncthreads_and(good);
}

__device__ inline void send_long(const DeviceBatch& batch, const std::byte* from, std::uint64_t number) {
  copy_message(batch, from);
  announce(batch, number);
}

__device__ __forceinline__ bool exchange_long(const DeviceBatch& batch, const std::byte* from, std::uint64_t exchange) {
  const std::uint64_t number = batch.last + exchange;
  if (batch.leads) send_long(batch, from, number);
  if (!receive_long(batch, number)) return false;
  if (!batch.leads) send_long(batch, from, number);
  return true;
}

__global__ void __launch_bounds__(most_threads, 1) long_round_trips(const DeviceBatch batch) {
  for (std::uint64_t exchange = 1; exchange < batch.count; ++exchange) {
    if (!exchange_long(batch, batch.send, exchange)) return;
  }
  if (batch.count > 0) exchange_long(batch, batch.send + batch.last_offset, batch.count);
}

// --- windows ---------------------------------------------------------------------------------------------------------

__device__ inline bool await_acknowledgement(const DeviceBatch& batch, std::uint64_t number) {
  bool good = true;
  if (threadIdx.x == 0) {
    good = await(batch, number,
                 [&] { return SystemAtomic(batch.inbox->acknowledged).load(cuda::memory_order_acquire) >= number; });
  }
  return __syncthreads_and(good);
}

// The messages of a window are stored one after the other, all the long way, to the one place, and announced together:
// their contents are equal, so their order does not matter. The first block of the receiver acknowledges the window
// when it has all of it; only then does the sender begin the next.
__global__ void __launch_bounds__(most_threads, 1) windows(const DeviceBatch batch) {
  for (std::uint64_t window = 1; window <= batch.count; ++window) {
    const std::uint64_t number = batch.last + window;
    if (batch.sends) {
      const std::byte* const from = window < batch.count ? batch.send : batch.send + batch.last_offset;
      for (int message = 0; message < batch.window; ++message) copy_message(batch, from);
      announce(batch, number);
    }
    if (batch.receives && blockIdx.x == 0) {
      if (!receive_long(batch, number)) return;
      if (threadIdx.x == 0) SystemAtomic(batch.inbox_there->acknowledged).store(number, cuda::memory_order_release);
    }
    if (batch.sends && !await_acknowledgement(batch, number)) return;
  }
}

}  // namespace volley::device
