// Halos by way of pinned host memory: GPU -> host -> MPI -> host -> GPU, whole messages, as `staged/pinned` moves them.
#pragma once

#include "gpu/pinned_buffer.cuh"
#include "transport/halo_link.hpp"
#include "transport/mpi_channel.hpp"

namespace volley {

class StagedHalo : public HaloLink {
 public:
  std::string unavailable(const Context&, const RankGroup&) override { return {}; }

  void open(const Context& context, const RankGroup& pair, const Buffers& buffers, std::size_t capacity,
            const View& view) override {
    mpi_.open(context, pair, buffers, capacity);
    mpi_.prepare(view);
    out_ = gpu::PinnedBuffer(view.bytes);
    in_ = gpu::PinnedBuffer(view.bytes);
  }

  [[nodiscard]] bool bounces() const override { return true; }

  void leave(const View& view, CUstream_st* cuda_stream) override {
    VOLLEY_CUDA_CHECK(cudaMemcpyAsync(out_.data(), view.send, view.bytes, cudaMemcpyDeviceToHost, cuda_stream));
  }
  void start(const View& view) override {
    const View host{out_.data(), in_.data(), view.bytes};
    mpi_.start_recv(host);
    mpi_.start_send(host);
  }
  void progress() override { mpi_.progress(); }
  void finish() override { mpi_.finish(); }
  void arrive(const View& view, CUstream_st* cuda_stream) override {
    VOLLEY_CUDA_CHECK(cudaMemcpyAsync(view.recv, in_.data(), view.bytes, cudaMemcpyHostToDevice, cuda_stream));
  }

  void close() override {
    mpi_.close();
    out_ = {};
    in_ = {};
  }

 protected:
  [[nodiscard]] std::byte* arrived() { return in_.data(); }

 private:
  MpiChannel mpi_;
  gpu::PinnedBuffer out_;
  gpu::PinnedBuffer in_;
};

}  // namespace volley
