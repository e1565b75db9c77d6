// The kernels of a node's matrices. What polls has a deadline.
#pragma once

#include <cuda/atomic>

#include <cstdint>

#include "../transport/device_access.cuh"

namespace volley::node {

using device::Line;
using device::Told;

// --- a stream that is held ---------------------------------------------------------------------------------------------

// In host memory. What is enqueued behind `hold` begins when `open` has come to its ticket.
struct Gate {
  std::uint64_t open;
  std::uint64_t expired;  // the ticket that was waited for in vain
};

__global__ void hold(Gate* gate, std::uint64_t ticket, std::uint64_t patience_ns) {
  const std::uint64_t deadline_ns = device::now_ns() + patience_ns;
  while (Told(gate->open).load(cuda::memory_order_acquire) < ticket) {
    if (device::now_ns() < deadline_ns) continue;
    Told(gate->expired).store(ticket, cuda::memory_order_release);
    return;
  }
}

// --- bandwidth ---------------------------------------------------------------------------------------------------------

constexpr unsigned copy_threads = 512;
// Loads of a thread that are under way before its first store: a round trip over the link is paid once for 192 bytes.
constexpr int copy_in_flight = 12;

// One block a multiprocessor; `units` of 16 bytes.
__global__ void __launch_bounds__(copy_threads, 1) copy(const uint4* from, uint4* to, std::uint64_t units) {
  const std::uint64_t threads = std::uint64_t{gridDim.x} * blockDim.x;
  std::uint64_t first = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (; first + (copy_in_flight - 1) * threads < units; first += copy_in_flight * threads) {
    uint4 held[copy_in_flight];
#pragma unroll
    for (int i = 0; i < copy_in_flight; ++i) held[i] = device::load(from + first + i * threads);
#pragma unroll
    for (int i = 0; i < copy_in_flight; ++i) device::store(to + first + i * threads, held[i]);
  }
  for (; first < units; first += threads) device::store(to + first, device::load(from + first));
}

// --- latency -----------------------------------------------------------------------------------------------------------

// An odd number of words that leads out of a line of 128 bytes: all words are visited if their number is a power of two.
constexpr std::uint64_t chase_stride = 17;

__device__ inline std::uint64_t load_past_caches(const std::uint64_t* from) {
  std::uint64_t value;
  asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(__cvta_generic_to_global(from)) : "memory");
  return value;
}

// `passes` times over all words (a power of two), one load after the other: the address of each is a sum with bits of the
// value before, which are masked by `none`, a zero that the compiler does not know. What was loaded is stored here at once;
// nobody waits for that.
__global__ void chase(const std::uint64_t* from, std::uint64_t* to, std::uint64_t words, std::uint64_t passes,
                      std::uint64_t none) {
  std::uint64_t at = 0;
  for (std::uint64_t i = 0; i < passes * words; ++i) {
    const std::uint64_t value = load_past_caches(from + at);
    device::store(to + at, value);
    at = ((at + chase_stride) & (words - 1)) + (value & none);
  }
}

// What one side of a ping-pong by stores does. Both sides' kernels run at once.
struct Bounce {
  const std::uint64_t* send;  // 8 bytes
  std::uint64_t* recv;
  Line* inbox;          // in this side's memory
  Line* inbox_there;    // in the other's
  std::uint64_t last;   // number of the last message of earlier launches
  std::uint64_t count;  // exchanges to make
  bool leads;
  std::uint64_t* expired;  // in host memory: the message that was waited for in vain
  std::uint64_t patience_ns;
};

// One look at the clock costs about as much as one at the inbox.
constexpr unsigned polls_between_looks = 1024;

// Waits for message `number` in this side's inbox. Each word of a line carries half of the message and the low half of the
// number (device_access.cuh).
__device__ inline bool await(const Bounce& job, std::uint64_t number, Line& found) {
  std::uint64_t deadline_ns = 0;
  const auto carries = [&](std::uint64_t word) { return word >> 32 == (number & 0xFFFFFFFFU); };
  for (unsigned polls = 1;; ++polls) {
    found = device::load_line(job.inbox);
    if (carries(found.words[0]) && carries(found.words[1])) return true;
    if (polls % polls_between_looks != 0) continue;
    const std::uint64_t now = device::now_ns();
    if (deadline_ns == 0) deadline_ns = now + job.patience_ns;
    if (now < deadline_ns) continue;
    Told(*job.expired).store(number, cuda::memory_order_release);
    return false;
  }
}

__device__ inline void send(const Bounce& job, std::uint64_t number) {
  const std::uint64_t data = device::load(job.send);
  device::store_line(job.inbox_there, {number << 32 | (data & 0xFFFFFFFFU), number << 32 | data >> 32});
}

// One thread. The answer starts when the whole message has been put in its place.
__global__ void bounce(const Bounce job) {
  for (std::uint64_t number = job.last + 1; number <= job.last + job.count; ++number) {
    if (job.leads) send(job, number);
    Line found;
    if (!await(job, number, found)) return;
    device::store(job.recv, (found.words[0] & 0xFFFFFFFFU) | found.words[1] << 32);
    if (!job.leads) send(job, number);
  }
}

}  // namespace volley::node
