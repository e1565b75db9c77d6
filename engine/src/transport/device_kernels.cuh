// The kernels of `device`. Both devices run one, and the two exchange messages without their hosts.
//
// There are two protocols:
//
//   short: every 16 bytes that are stored contain 8 bytes of a message and its number (gpu/kernels/flag.cuh).
//     They are stored to an inbox in the receiver's memory. The receiver polls each of them and copies the data to its
//     place. This needs no fence and crosses the link once; but it uses half of the link's bandwidth, and one block:
//     several blocks would need a grid-wide barrier before the answer, which costs as much as the fence of the other
//     protocol.
//
//   long: several blocks store directly to the message's place in the receiver's memory.
//     When all threads of a block have stored (__syncthreads), one of them stores the message's number in that block's
//     word of the receiver's inbox with release semantics at system scope. The release is cumulative (PTX ISA,
//     "Causality order"), so it covers what the other threads stored before the barrier. *Every* block of the receiver
//     waits until it has acquired the words of *all* blocks of the sender. So every block knows that the whole message
//     has arrived, without a grid-wide barrier.
//
// In both protocols each message has a number, which only increases while the inboxes are in use and distinguishes the
// message from all earlier ones. One inbox is enough: a rank sends message n + 1 only after it has received the whole
// answer to message n, and the other rank starts the answer only when all its threads have read message n from the
// inbox.
#pragma once

#include "gpu/kernels/copy.cuh"
#include "gpu/kernels/poll.cuh"

namespace volley::device {

using namespace gpu::kernels;

constexpr unsigned warp_threads = 32;
constexpr unsigned max_threads = 1024;
constexpr unsigned max_blocks = warp_threads;  // one lane of a warp polls each block's word

constexpr unsigned payload_bytes = 8;  // of a line
constexpr unsigned max_lines_per_thread = 2;
constexpr unsigned max_lines = max_threads * max_lines_per_thread;
constexpr unsigned short_bytes = max_lines * payload_bytes;  // longer messages use the long protocol

// In the memory of the device that polls it. The other device writes everything except the last word.
struct Inbox {
  FlaggedLine lines[max_lines];
  alignas(128) std::uint64_t arrived[max_blocks];  // number of the last message that the sender's block stored whole
  alignas(128) std::uint64_t acknowledged;         // number of the last window that the receiver has received
  alignas(128) std::uint64_t halo_arrived;         // number of the last halo that is whole
  alignas(128) std::uint32_t gave_up;              // the other device has given up waiting
  alignas(128) unsigned halo_blocks_stored;        // of this device's own halo: blocks that have stored their part
};

// The parameters of a launch.
struct Launch {
  const std::byte* send;
  std::byte* recv;
  std::byte* recv_there;  // the other rank's recv, mapped here
  std::uint64_t bytes;
  std::uint64_t last_offset;  // from `send` to the place of the last long message (or window)
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

// Each thread of the block then sees what the others stored before.
__device__ inline void wait_for_block() {
  if (blockDim.x == warp_threads) {
    __syncwarp();
  } else {
    __syncthreads();
  }
}

// --- short messages --------------------------------------------------------------------------------------------------

// What a thread does with one line of every message: the places of the data, and the lines that it sends and receives.
// It is computed once for each launch, because every instruction between a message and its answer increases the
// latency.
struct Part {
  const std::byte* from;
  std::byte* to;
  const FlaggedLine* here;
  FlaggedLine* there;
  unsigned bytes;  // of the message: 8, or what is left of it, or 0, where the thread has no such line
  bool word_from;  // 8 aligned bytes
  bool word_to;
};

__device__ inline bool whole_word(const std::byte* at, unsigned bytes) {
  return bytes == payload_bytes && reinterpret_cast<std::uintptr_t>(at) % payload_bytes == 0;
}

__device__ inline Part part_of(const Launch& launch, unsigned line) {
  const std::uint64_t offset = std::uint64_t{line} * payload_bytes;
  const std::uint64_t left = offset < launch.bytes ? launch.bytes - offset : 0;
  const unsigned bytes = left < payload_bytes ? static_cast<unsigned>(left) : payload_bytes;
  const std::byte* const from = launch.send + offset;
  std::byte* const to = launch.recv + offset;
  return {from,
          to,
          &launch.inbox->lines[line],
          &launch.inbox_there->lines[line],
          bytes,
          whole_word(from, bytes),
          whole_word(to, bytes)};
}

__device__ inline std::uint64_t gather(const Part& part) {
  if (part.word_from) return load(reinterpret_cast<const std::uint64_t*>(part.from));
  std::uint64_t data = 0;
  for (unsigned byte = 0; byte < part.bytes; ++byte) {
    data |= std::uint64_t{load(reinterpret_cast<const std::uint8_t*>(part.from) + byte)} << (8 * byte);
  }
  return data;
}

__device__ inline void scatter(const Part& part, std::uint64_t data) {
  if (part.word_to) {
    store(reinterpret_cast<std::uint64_t*>(part.to), data);
    return;
  }
  for (unsigned byte = 0; byte < part.bytes; ++byte) {
    store(reinterpret_cast<std::uint8_t*>(part.to) + byte, static_cast<std::uint8_t>(data >> (8 * byte)));
  }
}

template <unsigned lines>
__device__ void send_short(const Part (&parts)[lines], std::uint32_t number) {
#pragma unroll
  for (const Part& part : parts) {
    if (part.bytes == 0) break;
    store_line(part.there, flagged(gather(part), number));
  }
}

// Returns when the whole message is in its place, visible to every thread of the block, which is the only one to use
// it. Returns false if this thread's part did not arrive. The other threads notice that while they wait for the next
// message: a vote between a message and its answer would take longer than a barrier.
template <unsigned lines>
__device__ bool receive_short(const Launch& launch, const Part (&parts)[lines], std::uint32_t number) {
  bool good = true;
#pragma unroll
  for (const Part& part : parts) {
    if (part.bytes == 0) break;
    FlaggedLine found;
    good = good && await_peer(launch.wait, number, [&] {
             found = load_line(part.here);
             return carries(found, number);
           });
    if (good) scatter(part, data_of(found));
  }
  wait_for_block();
  return good;
}

// `lines`: for each thread.
template <unsigned lines>
__global__ void __launch_bounds__(max_threads, 1) short_round_trips(const Launch launch) {
  Part parts[lines];
#pragma unroll
  for (unsigned i = 0; i < lines; ++i) parts[i] = part_of(launch, threadIdx.x + i * blockDim.x);
  for (std::uint64_t exchange = 1; exchange <= launch.count; ++exchange) {
    const auto number = static_cast<std::uint32_t>(launch.last + exchange);
    if (launch.leads) send_short(parts, number);
    if (!receive_short(launch, parts, number)) return;
    if (!launch.leads) send_short(parts, number);
  }
}

// --- long messages ---------------------------------------------------------------------------------------------------

// Tells the other device that this block's part is stored.
__device__ inline void announce(const Launch& launch, std::uint64_t number) {
  __syncthreads();
  if (threadIdx.x == 0) raise(launch.inbox_there->arrived[blockIdx.x], number);
}

// Returns when all blocks of the other device have announced message `number`: the whole message is in its place.
// Both devices launch grids of one size.
__device__ inline bool receive_long(const Launch& launch, std::uint64_t number) {
  bool good = true;
  if (threadIdx.x < gridDim.x) {
    good = await_peer(launch.wait, number, [&] { return is_raised(launch.inbox->arrived[threadIdx.x], number); });
  }
  return __syncthreads_and(good);
}

__device__ inline void send_long(const Launch& launch, const std::byte* from, std::uint64_t number) {
  copy_bytes(from, launch.recv_there, launch.bytes);
  announce(launch, number);
}

__device__ __forceinline__ bool exchange_long(const Launch& launch, const std::byte* from, std::uint64_t exchange) {
  const std::uint64_t number = launch.last + exchange;
  if (launch.leads) send_long(launch, from, number);
  if (!receive_long(launch, number)) return false;
  if (!launch.leads) send_long(launch, from, number);
  return true;
}

static __global__ void __launch_bounds__(max_threads, 1) long_round_trips(const Launch launch) {
  for (std::uint64_t exchange = 1; exchange < launch.count; ++exchange) {
    if (!exchange_long(launch, launch.send, exchange)) return;
  }
  if (launch.count > 0) exchange_long(launch, launch.send + launch.last_offset, launch.count);
}

// --- windows ---------------------------------------------------------------------------------------------------------

__device__ inline bool await_acknowledgement(const Launch& launch, std::uint64_t number) {
  bool good = true;
  if (threadIdx.x == 0) {
    good = await_peer(launch.wait, number, [&] { return is_raised(launch.inbox->acknowledged, number); });
  }
  return __syncthreads_and(good);
}

// The messages of a window are stored one after the other, as in the long protocol, and announced together. Their order
// does not matter: they have one place and equal contents, or a place each. The first block of the receiver
// acknowledges the window when all of it has arrived; only then does the sender begin the next.
static __global__ void __launch_bounds__(max_threads, 1) exchange_windows(const Launch launch) {
  for (std::uint64_t window = 1; window <= launch.count; ++window) {
    const std::uint64_t number = launch.last + window;
    if (launch.sends) {
      const std::byte* const from = window < launch.count ? launch.send : launch.send + launch.last_offset;
      for (int message = 0; message < launch.window_messages; ++message) {
        const std::uint64_t place = static_cast<std::uint64_t>(message) * launch.stride;
        copy_bytes(from + place, launch.recv_there + place, launch.bytes);
      }
      announce(launch, number);
    }
    if (launch.receives && blockIdx.x == 0) {
      if (!receive_long(launch, number)) return;
      if (threadIdx.x == 0) raise(launch.inbox_there->acknowledged, number);
    }
    if (launch.sends && !await_acknowledgement(launch, number)) return;
  }
}

// --- halos: enqueued between kernels that compute
// ---------------------------------------------------------------------

constexpr unsigned halo_threads = 256;
constexpr unsigned max_halo_blocks = 32;

// A thread that acquires the number sees the whole halo, because of this order: a block's stores, its thread 0's fence
// (__syncthreads, and fences are cumulative: PTX ISA, "Causality order"), the block's count, all counts, the last
// block's fence, the number.
static __global__ void store_halo(const std::byte* from, std::byte* there, std::uint64_t bytes, Inbox* inbox,
                                  Inbox* inbox_there, std::uint64_t number) {
  copy_bytes(from, there, bytes);
  __syncthreads();
  if (threadIdx.x != 0) return;
  __threadfence_system();
  if (atomicAdd(&inbox->halo_blocks_stored, 1U) != gridDim.x - 1) return;
  inbox->halo_blocks_stored = 0;
  __threadfence_system();
  raise(inbox_there->halo_arrived, number);
}

// Ends when the halo `number` has arrived. If it does not arrive, later halos are not awaited either.
static __global__ void await_halo(Inbox* inbox, PeerWait wait, std::uint64_t number) {
  await_peer(wait, number, [&] { return is_raised(inbox->halo_arrived, number); });
}

}  // namespace volley::device
