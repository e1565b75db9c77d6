// Links whose data is moved by a single thread of a kernel: loads that wait for each other, and a ping-pong of stores.
#include <atomic>

#include "benchmark/gpu_matrix/links.cuh"
#include "gpu/kernel_launch.cuh"
#include "gpu/kernels/copy.cuh"
#include "gpu/kernels/flag.cuh"
#include "gpu/runtime.hpp"

namespace volley::gpu_matrix {

namespace {

namespace kernels = gpu::kernels;

// An odd number of words, longer than a line of 128 bytes: all words are visited if their number is a power of two.
constexpr std::uint64_t chase_stride = 17;

// Loads all words (a power of two) `passes` times, the last time those that begin at `last`. Each load waits for the
// one before: its address contains bits of the value before, masked by `none`, a zero that the compiler does not know.
// The values are stored here; no load waits for these stores.
__global__ void chase(const std::uint64_t* from, const std::uint64_t* last, std::uint64_t* to, std::uint64_t words,
                      std::uint64_t passes, std::uint64_t none) {
  std::uint64_t at = 0;
  for (std::uint64_t i = 0; i < passes * words; ++i) {
    if (i == (passes - 1) * words) from = last;
    const std::uint64_t value = kernels::load_relaxed(from[at]);  // past the caches
    kernels::store(to + at, value);
    at = ((at + chase_stride) & (words - 1)) + (value & none);
  }
}

// One side of a ping-pong of stores. The kernels of both sides run at the same time.
struct StorePingPong {
  const std::uint64_t* send;       // 8 bytes
  const std::uint64_t* last_send;  // of the last message
  std::uint64_t* recv;
  kernels::FlaggedLine* inbox;        // in this side's memory
  kernels::FlaggedLine* inbox_there;  // in the other side's memory
  std::uint64_t last;                 // number of the last message of earlier launches
  std::uint64_t count;                // exchanges to make
  bool leads;
  std::uint64_t* expired;  // in host memory: the message that was waited for in vain
  std::uint64_t timeout_ns;
};

// Reading the clock takes about as long as a poll of the inbox.
constexpr unsigned polls_per_check = 1024;

__device__ inline void send(const StorePingPong& job, std::uint64_t number) {
  const std::uint64_t data = kernels::load(number < job.last + job.count ? job.send : job.last_send);
  kernels::store_line(job.inbox_there, kernels::flagged(data, static_cast<std::uint32_t>(number)));
}

// Waits for message `number` in this side's inbox.
__device__ inline bool receive(const StorePingPong& job, std::uint64_t number) {
  kernels::FlaggedLine found;
  const auto arrived = [&] {
    found = kernels::load_line(job.inbox);
    return kernels::carries(found, static_cast<std::uint32_t>(number));
  };
  const bool good = kernels::poll<polls_per_check>(job.timeout_ns, arrived, [&](bool expired) {
    if (expired) kernels::raise(*job.expired, number);
    return expired;
  });
  if (good) kernels::store(job.recv, kernels::data_of(found));
  return good;
}

// One thread. The answer starts when the whole message is in its place.
__global__ void store_ping_pong(const StorePingPong job) {
  for (std::uint64_t number = job.last + 1; number <= job.last + job.count; ++number) {
    if (job.leads) send(job, number);
    if (!receive(job, number)) return;
    if (!job.leads) send(job, number);
  }
}

class RemoteLoads final : public RoutedLink {
 public:
  using RoutedLink::RoutedLink;

  void run(const View& view, std::uint64_t passes, const std::optional<Window>&) override {
    const Route& route = routes().front();
    gpu::select(route.driver->device);
    chase<<<1, 1, 0, route.cuda_stream().get()>>>(reinterpret_cast<const std::uint64_t*>(route.from.at),
                                                  reinterpret_cast<const std::uint64_t*>(route.source(view, 1, 1)),
                                                  reinterpret_cast<std::uint64_t*>(route.to.at),
                                                  view.bytes / sizeof(std::uint64_t), passes, 0);
    gpu::check_launch();
    await(route.cuda_stream(), timeout());
  }
};

class RemoteStores final : public RoutedLink {
 public:
  explicit RemoteStores(LinkSetup setup) : RoutedLink(std::move(setup)), expired_(sizeof(std::uint64_t)) {
    *expired() = 0;
    for (std::size_t side = 0; side < inboxes_.size(); ++side) {
      select(routes()[side].from);
      inboxes_[side] = gpu::DeviceBuffer(sizeof(kernels::FlaggedLine));
    }
  }

  // Numbers start again with empty inboxes.
  void prepare(const View&) override {
    last_ = 0;
    for (std::size_t side = 0; side < inboxes_.size(); ++side) {
      select(routes()[side].from);
      gpu::zero(inboxes_[side].data(), sizeof(kernels::FlaggedLine));
      gpu::synchronize_default_stream();
    }
  }

  void run(const View& view, std::uint64_t exchanges, const std::optional<Window>&) override {
    for (std::size_t side = 0; side < inboxes_.size(); ++side) start(side, view, exchanges);
    for (const auto& route : routes()) await(route.cuda_stream(), 2 * timeout());
    last_ += exchanges;
    if (const auto number = std::atomic_ref(*expired()).load(std::memory_order_acquire); number != 0) {
      throw std::runtime_error("8 bytes that one GPU's kernel stored did not arrive at the other's within " +
                               std::to_string(static_cast<int>(timeout().count())) + " s (message " +
                               std::to_string(number) + ")");
    }
  }

 private:
  [[nodiscard]] std::uint64_t* expired() const { return reinterpret_cast<std::uint64_t*>(expired_.data()); }

  // Route `side` leaves this side; the other route arrives here.
  void start(std::size_t side, const View& view, std::uint64_t exchanges) {
    const Route& out = routes()[side];
    const Route& in = routes()[1 - side];
    gpu::select(out.from.device);
    store_ping_pong<<<1, 1, 0, out.cuda_stream().get()>>>(
        {.send = reinterpret_cast<const std::uint64_t*>(out.from.at),
         .last_send = reinterpret_cast<const std::uint64_t*>(out.source(view, 1, 1)),
         .recv = reinterpret_cast<std::uint64_t*>(in.to.at),
         .inbox = reinterpret_cast<kernels::FlaggedLine*>(inboxes_[side].data()),
         .inbox_there = reinterpret_cast<kernels::FlaggedLine*>(inboxes_[1 - side].data()),
         .last = last_,
         .count = exchanges,
         .leads = side == 0,
         .expired = expired(),
         .timeout_ns = static_cast<std::uint64_t>(1e9 * timeout().count())});
    gpu::check_launch();
  }

  gpu::PinnedBuffer expired_;
  std::array<gpu::DeviceBuffer, 2> inboxes_;
  std::uint64_t last_ = 0;
};

}  // namespace

std::unique_ptr<GpuLink> make_remote_loads(LinkSetup setup) { return std::make_unique<RemoteLoads>(std::move(setup)); }

std::unique_ptr<GpuLink> make_remote_stores(LinkSetup setup) {
  return std::make_unique<RemoteStores>(std::move(setup));
}

}  // namespace volley::gpu_matrix
