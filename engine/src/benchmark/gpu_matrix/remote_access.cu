// Links whose data is moved by a single thread of a kernel: loads that wait for each other, and stores that are
// answered.
#include "benchmark/gpu_matrix/routes.cuh"
#include "gpu/check.cuh"
#include "gpu/device_buffer.cuh"
#include "gpu/kernels/device_access.cuh"
#include "gpu/pinned_buffer.cuh"

namespace volley::gpu_matrix {

namespace {

using device::Line;
using device::SystemAtomic;

// An odd number of words that leads out of a line of 128 bytes: all words are visited if their number is a power of
// two.
constexpr std::uint64_t chase_stride = 17;

__device__ inline std::uint64_t load_past_caches(const std::uint64_t* from) {
  std::uint64_t value;
  asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(__cvta_generic_to_global(from)) : "memory");
  return value;
}

// `passes` times over all words (a power of two), the last time over those that begin at `last`, one load after the
// other: the address of each is a sum with bits of the value before, which are masked by `none`, a zero that the
// compiler does not know. What was loaded is stored here at once; nobody waits for that.
__global__ void chase(const std::uint64_t* from, const std::uint64_t* last, std::uint64_t* to, std::uint64_t words,
                      std::uint64_t passes, std::uint64_t none) {
  std::uint64_t at = 0;
  for (std::uint64_t i = 0; i < passes * words; ++i) {
    if (i == (passes - 1) * words) from = last;
    const std::uint64_t value = load_past_caches(from + at);
    device::store(to + at, value);
    at = ((at + chase_stride) & (words - 1)) + (value & none);
  }
}

// What one side of a ping-pong by stores does. Both sides' kernels run at once.
struct ShortExchange {
  const std::uint64_t* send;       // 8 bytes
  const std::uint64_t* last_send;  // of the last message
  std::uint64_t* recv;
  Line* inbox;          // in this side's memory
  Line* inbox_there;    // in the other's
  std::uint64_t last;   // number of the last message of earlier launches
  std::uint64_t count;  // exchanges to make
  bool leads;
  std::uint64_t* expired;  // in host memory: the message that was waited for in vain
  std::uint64_t timeout_ns;
};

// One look at the clock costs about as much as one at the inbox.
constexpr unsigned polls_between_looks = 1024;

// Waits for message `number` in this side's inbox. Each word of a line carries half of the message and the low half of
// the number (device_access.cuh).
__device__ inline bool arrives(const ShortExchange& job, std::uint64_t number, Line& found) {
  std::uint64_t deadline_ns = 0;
  const auto carries = [&](std::uint64_t word) { return word >> 32 == (number & 0xFFFFFFFFU); };
  for (unsigned polls = 1;; ++polls) {
    found = device::load_line(job.inbox);
    if (carries(found.words[0]) && carries(found.words[1])) return true;
    if (polls % polls_between_looks != 0) continue;
    const std::uint64_t now = device::now_ns();
    if (deadline_ns == 0) deadline_ns = now + job.timeout_ns;
    if (now < deadline_ns) continue;
    SystemAtomic(*job.expired).store(number, cuda::memory_order_release);
    return false;
  }
}

__device__ inline void send(const ShortExchange& job, std::uint64_t number) {
  const std::uint64_t data = device::load(number < job.last + job.count ? job.send : job.last_send);
  device::store_line(job.inbox_there, {number << 32 | (data & 0xFFFFFFFFU), number << 32 | data >> 32});
}

// One thread. The answer starts when the whole message has been put in its place.
__global__ void bounce(const ShortExchange job) {
  for (std::uint64_t number = job.last + 1; number <= job.last + job.count; ++number) {
    if (job.leads) send(job, number);
    Line found;
    if (!arrives(job, number, found)) return;
    device::store(job.recv, (found.words[0] & 0xFFFFFFFFU) | found.words[1] << 32);
    if (!job.leads) send(job, number);
  }
}

class RemoteLoads final : public RoutedLink {
 public:
  RemoteLoads(std::vector<Route> routes, bool peers, Seconds timeout)
      : RoutedLink(std::move(routes), peers), timeout_(timeout) {}

  void windows(const View& view, std::uint64_t passes, const Window&) override {
    const Route& route = routes().front();
    gpu::select(route.driver->device);
    chase<<<1, 1, 0, route.cuda_stream().get()>>>(reinterpret_cast<const std::uint64_t*>(route.from.at),
                                                  reinterpret_cast<const std::uint64_t*>(route.source(view, 1, 1)),
                                                  reinterpret_cast<std::uint64_t*>(route.to.at),
                                                  view.bytes / sizeof(std::uint64_t), passes, 0);
    VOLLEY_CUDA_CHECK(cudaGetLastError());
    await(route.cuda_stream(), timeout_);
  }

 private:
  Seconds timeout_;
};

class RemoteStores final : public RoutedLink {
 public:
  RemoteStores(std::vector<Route> routes, bool peers, Seconds timeout)
      : RoutedLink(std::move(routes), peers), timeout_(timeout), expired_(sizeof(std::uint64_t)) {
    *expired() = 0;
    for (std::size_t side = 0; side < inboxes_.size(); ++side) {
      select(this->routes()[side].from);
      inboxes_[side] = gpu::DeviceBuffer(sizeof(Line));
    }
  }

  // Numbers begin anew with empty inboxes.
  void prepare(const View&) override {
    last_ = 0;
    for (std::size_t side = 0; side < inboxes_.size(); ++side) {
      select(routes()[side].from);
      VOLLEY_CUDA_CHECK(cudaMemset(inboxes_[side].data(), 0, sizeof(Line)));
      VOLLEY_CUDA_CHECK(cudaStreamSynchronize(nullptr));
    }
  }

  void round_trips(const View& view, std::uint64_t exchanges) override {
    for (std::size_t side = 0; side < inboxes_.size(); ++side) start(side, view, exchanges);
    for (const auto& route : routes()) await(route.cuda_stream(), 2 * timeout_);
    last_ += exchanges;
    if (const auto number = SystemAtomic(*expired()).load(cuda::memory_order_acquire); number != 0) {
      throw std::runtime_error("8 bytes that one GPU's kernel stored did not arrive at the other's within " +
                               std::to_string(static_cast<int>(timeout_.count())) + " s (message " +
                               std::to_string(number) + ")");
    }
  }

 private:
  [[nodiscard]] std::uint64_t* expired() const { return reinterpret_cast<std::uint64_t*>(expired_.data()); }

  // A route begins at the side of its number; what comes in there is the other route's.
  void start(std::size_t side, const View& view, std::uint64_t exchanges) {
    const Route& out = routes()[side];
    const Route& in = routes()[1 - side];
    gpu::select(out.from.device);
    bounce<<<1, 1, 0, out.cuda_stream().get()>>>(
        {.send = reinterpret_cast<const std::uint64_t*>(out.from.at),
         .last_send = reinterpret_cast<const std::uint64_t*>(out.source(view, 1, 1)),
         .recv = reinterpret_cast<std::uint64_t*>(in.to.at),
         .inbox = reinterpret_cast<Line*>(inboxes_[side].data()),
         .inbox_there = reinterpret_cast<Line*>(inboxes_[1 - side].data()),
         .last = last_,
         .count = exchanges,
         .leads = side == 0,
         .expired = expired(),
         .timeout_ns = static_cast<std::uint64_t>(1e9 * timeout_.count())});
    VOLLEY_CUDA_CHECK(cudaGetLastError());
  }

  Seconds timeout_;
  gpu::PinnedBuffer expired_;
  std::array<gpu::DeviceBuffer, 2> inboxes_;
  std::uint64_t last_ = 0;
};

}  // namespace

std::unique_ptr<GpuLink> make_remote_loads(std::vector<Route> routes, bool peers, Seconds timeout) {
  return std::make_unique<RemoteLoads>(std::move(routes), peers, timeout);
}

std::unique_ptr<GpuLink> make_remote_stores(std::vector<Route> routes, bool peers, Seconds timeout) {
  return std::make_unique<RemoteStores>(std::move(routes), peers, timeout);
}

}  // namespace volley::gpu_matrix
