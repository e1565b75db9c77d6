// `device`: kernels on both devices store directly into the other device's memory and poll flags there. One launch
// makes all exchanges of a batch; the host only starts it and waits for its end. Halos are stored and awaited by
// kernels between those that compute; no host takes part. See kernels.cuh for the protocols.
#include <algorithm>

#include "gpu/kernel_launch.cuh"
#include "transport/device/inboxes.cuh"
#include "transport/device/kernels.cuh"
#include "transport/device/shape.hpp"

namespace volley {

namespace {

using device::Inboxes;
using device::JoinBlock;
using device::JoinCluster;
using device::Launch;
using device::Shape;

// A line for each thread: in one block, or else in a cluster of blocks, whose barrier takes longer. No blocks if the
// message is too long for a cluster of `max_cluster` blocks.
constexpr Shape short_shape(std::size_t bytes, unsigned max_cluster) {
  const std::size_t lines = device::lines_of(bytes);
  const unsigned blocks = lines <= device::max_threads ? 1 : max_cluster;
  if (lines > std::size_t{blocks} * device::max_threads) return {0, 0};
  return {blocks, device::threads_for(round_up(lines, blocks) / blocks)};
}

class DeviceTransport final : public KernelDriven {
 public:
  void open(const RankGroup& pair, const Buffers& buffers) override {
    inboxes_.open(pair, timeout_ns());
    Limits mine;
    agreed_step(pair, [&] {
      // All blocks of a launch must be resident together: a block that waits for a free place would wait for ever.
      mine.blocks = std::min({device::max_blocks, gpu::resident_blocks(device::long_round_trips, device::max_threads),
                              gpu::resident_blocks(device::exchange_windows, device::max_threads)});
      mine.cluster = std::min(device::max_line_blocks,
                              gpu::max_cluster_blocks(device::short_round_trips<JoinCluster>, device::max_threads));
    });
    const Limits theirs = exchanged_with_peer(mine, pair);
    limits_ = {std::min(mine.blocks, theirs.blocks), std::min(mine.cluster, theirs.cluster)};
    buffers_ = PeerBuffers(pair, buffers);
  }

  void prepare(const View&) override { inboxes_.reset(); }

  void round_trips(const View& view, std::uint64_t exchanges) override {
    const Launch launch = inboxes_.launch_of(view, exchanges);
    const Shape shape = short_shape(view.bytes, limits_.cluster);
    if (shape.blocks == 0) return launch_long(device::long_round_trips, launch, view);
    if (shape.blocks == 1) {
      device::short_round_trips<JoinBlock><<<1, shape.threads, 0, inboxes_.stream().get()>>>(launch);
      gpu::check_launch();
    } else {
      gpu::launch_cluster(device::short_round_trips<JoinCluster>, shape.blocks, shape.threads, inboxes_.stream().get(),
                          launch);
    }
    inboxes_.complete(launch, exchanges);
  }

  void windows(const View& view, std::uint64_t count, const Window& window) override {
    launch_long(device::exchange_windows, Inboxes::windows_of(inboxes_.launch_of(view, count), window), view);
  }

  void open_halo(const View& view) override { prepare(view); }
  [[nodiscard]] bool host_driven() const override { return false; }

  void enqueue_send(const View& view, gpu::StreamHandle cuda_stream) override {
    const auto threads = view.bytes / sizeof(uint4) + 1;
    const auto blocks = std::clamp<std::size_t>((threads + device::halo_threads - 1) / device::halo_threads, 1,
                                                device::max_halo_blocks);
    device::store_halo<<<static_cast<unsigned>(blocks), device::halo_threads, 0, cuda_stream>>>(
        view.send, buffers_.opposite(view.recv), view.bytes, inboxes_.mine(), inboxes_.theirs(), inboxes_.next());
    gpu::check_launch();
  }

  void enqueue_recv(const View&, gpu::StreamHandle cuda_stream) override {
    device::await_halo<<<1, 1, 0, cuda_stream>>>(inboxes_.mine(), inboxes_.wait(), inboxes_.last());
    gpu::check_launch();
  }

  void progress() override { inboxes_.check_halos(); }

  void close() override {
    buffers_ = {};
    inboxes_.close();
  }

  [[nodiscard]] Json facts() const override {
    return {{"flag_in_word_up_to_bytes", std::size_t{limits_.cluster} * device::max_threads * device::line_bytes},
            {"flag_in_word_max_threads", device::max_threads},
            {"flag_in_word_max_blocks", limits_.cluster},
            {"direct_stores_max_blocks", limits_.blocks},
            {"direct_stores_max_threads_per_block", device::max_threads},
            {"windows", "direct stores at every size"},
            {"timeout_s", timeout_s()}};
  }

 private:
  // Of a launch, the same on both ranks.
  struct Limits {
    unsigned blocks = 1;   // that are resident together
    unsigned cluster = 1;  // blocks of a cluster
  };

  void launch_long(void (*kernel)(Launch), Launch launch, const View& view) {
    launch.recv_there = buffers_.opposite(view.recv);
    launch.wait.timeout_ns += ns_per_byte * view.bytes * static_cast<std::uint64_t>(launch.window_messages);
    const Shape shape = device::long_shape(view.bytes, limits_.blocks);
    gpu::launch_together(kernel, shape.blocks, shape.threads, inboxes_.stream().get(), launch);
    inboxes_.complete(launch, launch.count);
  }

  Limits limits_;
  Inboxes inboxes_{"device"};
  PeerBuffers buffers_;
};

}  // namespace

std::unique_ptr<Transport> make_device() { return std::make_unique<DeviceTransport>(); }

}  // namespace volley
