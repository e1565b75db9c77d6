// `staged/pinned`: whole messages through page-locked host memory, which the copy engine accesses directly, by
// asynchronous copies that the host waits for. Halos are copied on the stream of the kernels that compute.
#pragma once

#include "gpu/buffers.cuh"
#include "transport/staged/whole_messages.cuh"

namespace volley {

class StagedPinned : public Whole<gpu::PinnedBuffer, AsyncCopies> {
 public:
  void open_halo(const View& view) override {
    channel_.mpi().prepare(view);
    halo_out_ = gpu::PinnedBuffer(view.bytes);
    halo_in_ = gpu::PinnedBuffer(view.bytes);
  }
  // Those who exchange halos say so with a window both ways.
  [[nodiscard]] std::uint64_t host_memory_bytes(std::uint64_t bytes,
                                                const std::optional<Window>& window) const override {
    const std::uint64_t messages = Whole::host_memory_bytes(bytes, window);
    return window && window->direction == Direction::bi ? std::max(messages, 2 * bytes) : messages;
  }
  [[nodiscard]] bool staged_through_host() const override { return true; }
  void enqueue_send(const View& view, gpu::StreamHandle cuda_stream) override {
    gpu::copy_to_host_async(halo_out_.data(), view.send, view.bytes, cuda_stream);
  }
  void start(const View& view) override {
    const View host{halo_out_.data(), halo_in_.data(), view.bytes};
    channel_.mpi().start_recv(host);
    channel_.mpi().start_send(host);
  }
  void progress() override { channel_.mpi().progress(); }
  void finish() override { channel_.mpi().finish(); }
  void enqueue_recv(const View& view, gpu::StreamHandle cuda_stream) override {
    gpu::copy_to_device_async(view.recv, halo_in_.data(), view.bytes, cuda_stream);
  }
  void close() override {
    Whole::close();
    halo_out_ = {};
    halo_in_ = {};
  }

 private:
  gpu::PinnedBuffer halo_out_;
  gpu::PinnedBuffer halo_in_;
};

}  // namespace volley
