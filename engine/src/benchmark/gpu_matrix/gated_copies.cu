// Links whose small copies are enqueued behind a kernel that blocks the stream, as in the CUDA sample
// p2pBandwidthLatencyTest: so the time to enqueue copies and the time to perform them are measured separately.
#include "benchmark/gpu_matrix/routes.cuh"
#include "gpu/copy.cuh"

namespace volley::gpu_matrix {

namespace {

class GatedCopies final : public RoutedLink {
 public:
  using RoutedLink::RoutedLink;

  void arm(const View& view, std::uint64_t count) override {
    gpu::select(route().driver->device);
    blocker().close(route().cuda_stream(), timeout());
    if (!enqueues_) enqueue(view, count);
  }

  void windows(const View& view, std::uint64_t count, const Window&) override {
    if (enqueues_) enqueue(view, count);
    else open_and_wait();
  }

  void disarm() override {
    if (enqueues_) open_and_wait();
    if (!blocker().expired()) return;
    throw HungError("enqueueing small copies did not end within " +
                    std::to_string(static_cast<int>(timeout().count())) + " s");
  }

 private:
  [[nodiscard]] const Route& route() const { return routes().front(); }
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
    await(route().cuda_stream(), timeout());
  }

  // Otherwise what is timed is the time of the copies.
  const bool enqueues_ = section().metric == Metric::enqueue;
};

}  // namespace

std::unique_ptr<GpuLink> make_gated_copies(LinkSetup setup) { return std::make_unique<GatedCopies>(std::move(setup)); }

}  // namespace volley::gpu_matrix
