// Links whose data is moved by a single thread of a kernel: loads that wait for each other, and a ping-pong of stores.
#include "benchmark/gpu_matrix/links.cuh"
#include "gpu/kernel_launch.cuh"
#include "gpu/kernels/messages.cuh"

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

class RemoteLoads final : public GpuLink {
 public:
  using GpuLink::GpuLink;

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

// The kernels of both sides, which run at the same time, store words into each other's memory.
class RemoteStores final : public GpuLink {
 public:
  explicit RemoteStores(LinkSetup setup) : GpuLink(std::move(setup)), report_(sizeof(kernels::PollReport)) {
    for (std::size_t side = 0; side < inboxes_.size(); ++side) {
      select(routes()[side].from);
      inboxes_[side] = gpu::DeviceBuffer(sizeof(kernels::Inbox));
    }
  }

  // Numbers start again with empty inboxes.
  void prepare(const View&) override {
    last_ = 0;
    report() = {kernels::PollStatus::ready, 0};
    for (std::size_t side = 0; side < inboxes_.size(); ++side) {
      select(routes()[side].from);
      gpu::zero(inboxes_[side].data(), sizeof(kernels::Inbox));
      gpu::synchronize_default_stream();
    }
  }

  void run(const View& view, std::uint64_t exchanges, const std::optional<Window>&) override {
    for (std::size_t side = 0; side < inboxes_.size(); ++side) start(side, view, exchanges);
    for (const auto& route : routes()) await(route.cuda_stream(), 2 * timeout());
    last_ += exchanges;
    if (std::atomic_ref(report().status).load(std::memory_order_acquire) == kernels::PollStatus::ready) return;
    throw std::runtime_error("8 bytes that one GPU's kernel stored did not arrive at the other's within " +
                             std::to_string(static_cast<int>(timeout().count())) + " s (message " +
                             std::to_string(report().number) + ")");
  }

 private:
  [[nodiscard]] kernels::PollReport& report() const { return *reinterpret_cast<kernels::PollReport*>(report_.data()); }
  [[nodiscard]] kernels::Inbox* inbox(std::size_t side) const {
    return reinterpret_cast<kernels::Inbox*>(inboxes_[side].data());
  }

  // Route `side` leaves this side; the other route arrives here.
  void start(std::size_t side, const View& view, std::uint64_t exchanges) {
    const Route& out = routes()[side];
    kernels::Launch launch{};
    launch.send = out.from.at;
    launch.recv = routes()[1 - side].to.at;
    launch.bytes = view.bytes;
    launch.last_offset = view.last_offset;
    launch.inbox = inbox(side);
    launch.inbox_there = inbox(1 - side);
    launch.last = last_;
    launch.count = exchanges;
    launch.window_messages = 1;
    launch.leads = side == 0;
    launch.wait = {.report = &report(),
                   .peer_gave_up = &inbox(side)->gave_up,
                   .gave_up = &inbox(1 - side)->gave_up,
                   .timeout_ns = static_cast<std::uint64_t>(1e9 * timeout().count())};
    gpu::select(out.from.device);
    kernels::word_round_trips<std::uint64_t><<<1, 1, 0, out.cuda_stream().get()>>>(launch);
    gpu::check_launch();
  }

  gpu::PinnedBuffer report_;
  std::array<gpu::DeviceBuffer, 2> inboxes_;
  std::uint64_t last_ = 0;
};

}  // namespace

std::unique_ptr<GpuLink> make_remote_loads(LinkSetup setup) { return std::make_unique<RemoteLoads>(std::move(setup)); }

std::unique_ptr<GpuLink> make_remote_stores(LinkSetup setup) {
  return std::make_unique<RemoteStores>(std::move(setup));
}

}  // namespace volley::gpu_matrix
