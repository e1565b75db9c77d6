// How a cell moves its messages: by copy engines or a copy kernel, between two GPUs or between a GPU and pinned memory
// of the host; or by a single thread of a kernel, with loads that wait for each other and a ping-pong of stores.
#include <algorithm>
#include <atomic>
#include <future>

#include "benchmark/gpu_matrix/links.cuh"
#include "gpu/kernel_launch.cuh"
#include "gpu/kernels/messages.cuh"

namespace volley::gpu_matrix {
namespace {

namespace kernels = gpu::kernels;

__global__ void hold(StreamBlocker::Latch* latch, std::uint64_t ticket, std::uint64_t timeout_ns) {
  kernels::poll<1>(
      timeout_ns, [&] { return kernels::is_raised(latch->open, ticket); },
      [&](bool expired) {
        if (expired) kernels::raise(latch->expired, ticket);
        return expired;
      });
}

// Starting a thread takes as long as checking a message of a few megabytes.
constexpr std::size_t bytes_worth_a_thread = std::size_t{8} << 20;

// `there` has the seed of route 0. Seeds of the two directions differ in the lowest bit, and those of GPUs that copy at
// the same time above the tag (messages/pattern.hpp).
Contents of_route(const Contents& there, const Route& route) {
  constexpr int tag_bits = 8;
  const auto driver = static_cast<std::uint64_t>(route.driver->device);
  return {there.seed ^ route.number ^ driver << tag_bits, there.first_word};
}

}  // namespace

StreamBlocker::StreamBlocker() : latch_(1) { *latch_.data() = {}; }

void StreamBlocker::close(const gpu::Stream& cuda_stream, Seconds timeout) {
  const auto timeout_ns = static_cast<std::uint64_t>(1e9 * timeout.count());
  hold<<<1, 1, 0, cuda_stream.get()>>>(latch_.data(), ++ticket_, timeout_ns);
  gpu::check_launch();
}

void StreamBlocker::open() { std::atomic_ref(latch_.data()->open).store(ticket_, std::memory_order_release); }

bool StreamBlocker::expired() const {
  return std::atomic_ref(latch_.data()->expired).load(std::memory_order_acquire) != 0;
}

void await(const gpu::Stream& cuda_stream, Seconds timeout) {
  const auto begun = Clock::now();
  while (cuda_stream.busy()) {
    if (seconds_since(begun) < timeout.count()) continue;
    throw HungError("no progress for " + std::to_string(static_cast<int>(timeout.count())) +
                    " s: a copy or a kernel of this cell did not end");
  }
}

void GpuLink::fill(std::byte* message, std::size_t bytes, const Contents& contents) {
  const auto offset = message - buffers().send;
  for (const auto& route : setup_.routes) {
    select(route.from);
    route.from.verifier->fill(route.from.at + offset, bytes, of_route(contents, route));
  }
}

void GpuLink::poison(std::byte* message, std::size_t bytes, const Contents& expected) {
  const auto offset = message - buffers().recv;
  for (const auto& route : setup_.routes) {
    select(route.to);
    route.to.verifier->poison(route.to.at + offset, bytes, of_route(expected, route));
  }
}

// The routes are checked in parallel, because they use different GPUs or different buffers of one.
std::optional<Mismatch> GpuLink::check(const std::byte* message, std::size_t bytes, const Contents& expected) {
  const auto offset = message - buffers().recv;
  struct PendingCheck {
    const char* reader;
    std::future<std::optional<Mismatch>> wrong;
  };
  std::vector<PendingCheck> all;
  const auto policy = bytes < bytes_worth_a_thread ? std::launch::deferred : std::launch::async | std::launch::deferred;
  const auto start_check = [&](const Location& place, const char* reader, const Contents& contents) {
    all.push_back({reader, std::async(policy, [&place, offset, bytes, contents] {
                     select(place);
                     return place.verifier->check(place.at + offset, bytes, contents);
                   })});
  };
  for (const auto& route : setup_.routes) {
    start_check(route.to, route.timed ? "where it arrived" : "where another GPU's copy with the host arrived",
                of_route(expected, route));
    if (route.over_link)
      start_check(*route.over_link, "as the other GPU loads it over the link", of_route(expected, route));
  }
  std::optional<Mismatch> found;
  for (auto& [reader, pending] : all) {
    const auto wrong = pending.get();
    if (!wrong || found) continue;
    found = wrong;
    if (complaint_.empty()) complaint_ = difference("the data", "was sent", *wrong) + ", " + reader;
  }
  return found;
}

namespace {

// --- copies ----------------------------------------------------------------------------------------------------------

constexpr std::uint64_t first_copy_bytes = 64 << 10;
constexpr unsigned copy_threads = 512;
// Loads of a thread in flight before its first store: a thread waits for the link once for 192 bytes.
constexpr int copy_in_flight = 12;

// One block for each multiprocessor; `units` of 16 bytes.
__global__ void __launch_bounds__(copy_threads, 1) copy_kernel(const uint4* from, uint4* to, std::uint64_t units) {
  const std::uint64_t threads = std::uint64_t{gridDim.x} * blockDim.x;
  std::uint64_t first = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (; first + (copy_in_flight - 1) * threads < units; first += copy_in_flight * threads) {
    kernels::copy_batch<copy_in_flight, false>(from, to, first, threads, units);
  }
  for (; first < units; first += threads) kernels::copy_batch<1, false>(from, to, first, threads, units);
}

class Copies : public GpuLink {
 public:
  using GpuLink::GpuLink;

  // The first copy of a link may hang, so it has a deadline. Later small ones have none: that is faster.
  void prepare(const View& view, const std::optional<Window>&) override {
    if (setup_.hangs) {  // a test: nobody opens the blocker in time
      gpu::select(setup_.routes.front().driver->device);
      setup_.routes.front().driver->blocker->close(setup_.routes.front().cuda_stream(), 3 * setup_.timeout);
    }
    const std::uint64_t bytes = std::min(view.bytes, first_copy_bytes);
    for (const auto& route : setup_.routes) copy(route, route.from.at, route.to.at, bytes);
    finish(bytes);
    disarm();
  }

  void run(const View& view, std::uint64_t count, const std::optional<Window>& window) override {
    const int messages = window->messages;
    for (std::uint64_t turn = 1; turn <= count; ++turn) {
      const std::uint64_t before = (turn - 1) * static_cast<std::uint64_t>(messages);
      for (int message = 0; message < messages; ++message) {
        const std::uint64_t offset = (before + static_cast<std::uint64_t>(message)) * view.stride;
        for (const auto& route : setup_.routes) {
          const std::byte* const from = route.source(view, turn, count) + offset;
          copy(route, from, route.to.at + offset, view.bytes);
          if (!route.timed) copy(route, from, route.to.at + offset, view.bytes);  // it lasts longer than what is timed
        }
      }
      if (setup_.section.metric == Metric::completion) synchronize();
    }
    if (setup_.section.metric == Metric::bandwidth) finish(count * view.bytes * static_cast<std::uint64_t>(messages));
  }

  void disarm() override {
    for (const auto& route : setup_.routes) await(route.cuda_stream(), enough_);
  }

 protected:
  virtual void copy(const Route& route, const std::byte* from, std::byte* to, std::uint64_t bytes) {
    if (route.from.device < 0 || route.to.device < 0) {
      gpu::copy_async<gpu::anywhere>(to, from, bytes, route.cuda_stream().get());
    } else {
      gpu::copy_peer_async(to, route.to.device, from, route.from.device, bytes, route.cuda_stream().get());
    }
  }

 private:
  void synchronize() {
    for (const auto& route : setup_.routes) route.cuda_stream().synchronize();
  }
  void finish(std::uint64_t bytes) {
    enough_ = setup_.timeout + Seconds(timeout_s_per_byte * static_cast<double>(bytes));
    for (const auto& route : setup_.routes) {
      if (route.timed) await(route.cuda_stream(), enough_);
    }
  }

  Seconds enough_ = setup_.timeout;
};

class KernelCopies final : public Copies {
 public:
  using Copies::Copies;

 protected:
  void copy(const Route& route, const std::byte* from, std::byte* to, std::uint64_t bytes) override {
    gpu::select(route.driver->device);
    // Both ways with the host, one GPU runs two kernels at once.
    const bool shared = setup_.section.ends != Ends::gpus && setup_.section.direction == Direction::bi;
    const unsigned blocks = gpu::multiprocessors(route.driver->device) / (shared ? 2 : 1);
    copy_kernel<<<blocks, copy_threads, 0, route.cuda_stream().get()>>>(
        reinterpret_cast<const uint4*>(from), reinterpret_cast<uint4*>(to), bytes / sizeof(uint4));
    gpu::check_launch();
  }
};

// Small copies are enqueued after a kernel that blocks the stream, as in the CUDA sample p2pBandwidthLatencyTest: so
// the time to enqueue copies and the time to perform them are measured separately.
class GatedCopies final : public GpuLink {
 public:
  using GpuLink::GpuLink;

  void arm(const View& view, std::uint64_t count, const std::optional<Window>&) override {
    gpu::select(route().driver->device);
    blocker().close(route().cuda_stream(), setup_.timeout);
    if (!enqueues_) enqueue(view, count);
  }

  void run(const View& view, std::uint64_t count, const std::optional<Window>&) override {
    if (enqueues_) enqueue(view, count);
    else open_and_wait();
  }

  void disarm() override {
    if (enqueues_) open_and_wait();
    if (!blocker().expired()) return;
    throw HungError("enqueueing small copies did not end within " +
                    std::to_string(static_cast<int>(setup_.timeout.count())) + " s");
  }

 private:
  [[nodiscard]] const Route& route() const { return setup_.routes.front(); }
  [[nodiscard]] StreamBlocker& blocker() const { return *route().driver->blocker; }

  void enqueue(const View& view, std::uint64_t count) {
    for (std::uint64_t i = 1; i <= count; ++i) {
      const std::uint64_t offset = (i - 1) * view.stride;
      gpu::copy_peer_async(route().to.at + offset, route().to.device, route().source(view, i, count) + offset,
                           route().from.device, view.bytes, route().cuda_stream().get());
    }
  }

  void open_and_wait() {
    blocker().open();
    await(route().cuda_stream(), setup_.timeout);
  }

  // Otherwise what is timed is the time of the copies.
  const bool enqueues_ = setup_.section.metric == Metric::enqueue;
};

// --- loads and stores of one thread ----------------------------------------------------------------------------------

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

class RemoteLoads final : public GpuLink {
 public:
  using GpuLink::GpuLink;

  void run(const View& view, std::uint64_t passes, const std::optional<Window>&) override {
    const Route& route = setup_.routes.front();
    gpu::select(route.driver->device);
    chase<<<1, 1, 0, route.cuda_stream().get()>>>(reinterpret_cast<const std::uint64_t*>(route.from.at),
                                                  reinterpret_cast<const std::uint64_t*>(route.source(view, 1, 1)),
                                                  reinterpret_cast<std::uint64_t*>(route.to.at),
                                                  view.bytes / sizeof(std::uint64_t), passes, 0);
    gpu::check_launch();
    await(route.cuda_stream(), setup_.timeout);
  }
};

// The kernels of both sides, which run at the same time, store words into each other's memory.
class RemoteStores final : public GpuLink {
 public:
  explicit RemoteStores(LinkSetup setup) : GpuLink(std::move(setup)), report_(1) {
    for (std::size_t side = 0; side < inboxes_.size(); ++side) {
      select(setup_.routes[side].from);
      inboxes_[side] = gpu::DeviceValues<kernels::Inbox>(1);
    }
  }

  // Numbers start again with empty inboxes.
  void prepare(const View&, const std::optional<Window>&) override {
    last_ = 0;
    *report_.data() = {kernels::PollStatus::ready, 0};
    for (std::size_t side = 0; side < inboxes_.size(); ++side) {
      select(setup_.routes[side].from);
      gpu::zero(inboxes_[side].data(), sizeof(kernels::Inbox));
    }
  }

  void run(const View& view, std::uint64_t exchanges, const std::optional<Window>&) override {
    for (std::size_t side = 0; side < inboxes_.size(); ++side) start(side, view, exchanges);
    for (const auto& route : setup_.routes) await(route.cuda_stream(), 2 * setup_.timeout);
    last_ += exchanges;
    if (std::atomic_ref(report_.data()->status).load(std::memory_order_acquire) == kernels::PollStatus::ready) return;
    throw std::runtime_error("8 bytes that one GPU's kernel stored did not arrive at the other's within " +
                             std::to_string(static_cast<int>(setup_.timeout.count())) + " s (message " +
                             std::to_string(report_.data()->number) + ")");
  }

 private:
  // Route `side` leaves this side; the other route arrives here.
  void start(std::size_t side, const View& view, std::uint64_t exchanges) {
    const Route& out = setup_.routes[side];
    kernels::Launch launch{};
    launch.send = out.from.at;
    launch.recv = setup_.routes[1 - side].to.at;
    launch.bytes = view.bytes;
    launch.last_offset = view.last_offset;
    launch.inbox = inboxes_[side].data();
    launch.inbox_there = inboxes_[1 - side].data();
    launch.last = last_;
    launch.count = exchanges;
    launch.window_messages = 1;
    launch.leads = side == 0;
    launch.wait = {.report = report_.data(),
                   .peer_gave_up = &inboxes_[side].data()->gave_up,
                   .gave_up = &inboxes_[1 - side].data()->gave_up,
                   .timeout_ns = static_cast<std::uint64_t>(1e9 * setup_.timeout.count())};
    gpu::select(out.from.device);
    kernels::word_round_trips<std::uint64_t, false><<<1, 1, 0, out.cuda_stream().get()>>>(launch);
    gpu::check_launch();
  }

  gpu::PinnedValues<kernels::PollReport> report_;
  std::array<gpu::DeviceValues<kernels::Inbox>, 2> inboxes_;
  std::uint64_t last_ = 0;
};

}  // namespace

std::unique_ptr<GpuLink> make_link(LinkSetup setup) {
  switch (setup.section.metric) {
    case Metric::bandwidth:
    case Metric::completion:
      if (setup.section.engine == Engine::sm) return std::make_unique<KernelCopies>(std::move(setup));
      return std::make_unique<Copies>(std::move(setup));
    case Metric::issue:
    case Metric::enqueue: return std::make_unique<GatedCopies>(std::move(setup));
    case Metric::store: return std::make_unique<RemoteStores>(std::move(setup));
    case Metric::load: return std::make_unique<RemoteLoads>(std::move(setup));
  }
  throw std::logic_error("a section that measures nothing");
}

}  // namespace volley::gpu_matrix
