// Copies between device and host memory, as a pipeline asks for them, and whole ones for a ping-pong.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "gpu/stream.cuh"

namespace volley {

// cudaMemcpy on the default cuda_stream, as the tutorial does.
//
// From pageable memory to the device it may return as soon as the bytes are in the driver's hands, before they are on
// the device (CUDA Runtime API, "API synchronization behavior"). Later copies of the cuda_stream come after them; the
// clock and other streams may not, so a batch ends with settle().
class BlockingCopies {
 public:
  void open() {}
  void close() {}
  void copy_out(std::byte* host, const std::byte* device, std::size_t bytes) {
    VOLLEY_CUDA_CHECK(cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost));
  }
  void copy_in(std::byte* device, const std::byte* host, std::size_t bytes) {
    VOLLEY_CUDA_CHECK(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice));
  }
  void settle() { VOLLEY_CUDA_CHECK(cudaStreamSynchronize(nullptr)); }

  void prepare(std::uint64_t) {}
  void begin_out(std::uint64_t, std::byte* host, const std::byte* device, std::size_t bytes) {
    copy_out(host, device, bytes);
  }
  void begin_in(std::uint64_t, std::byte* device, const std::byte* host, std::size_t bytes) {
    copy_in(device, host, bytes);
  }
  [[nodiscard]] bool out_done(std::uint64_t) { return true; }
  [[nodiscard]] bool in_done(std::uint64_t) { return true; }
};

// cudaMemcpyAsync from and to pinned memory on a cuda_stream for each direction, and an event behind each copy.
class AsyncCopies {
 public:
  void open() {
    out_.cuda_stream = gpu::Stream::make();
    in_.cuda_stream = gpu::Stream::make();
  }
  void close() {
    out_ = {};
    in_ = {};
  }
  void copy_out(std::byte* host, const std::byte* device, std::size_t bytes) {
    VOLLEY_CUDA_CHECK(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, out_.cuda_stream.get()));
    out_.cuda_stream.synchronize();
  }
  void copy_in(std::byte* device, const std::byte* host, std::size_t bytes) {
    VOLLEY_CUDA_CHECK(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, in_.cuda_stream.get()));
    in_.cuda_stream.synchronize();
  }
  void settle() {}  // every copy was seen complete

  void prepare(std::uint64_t places) {
    for (auto* way : {&out_, &in_}) {
      while (way->events.size() < places) way->events.push_back(gpu::Event::make());
    }
  }
  void begin_out(std::uint64_t place, std::byte* host, const std::byte* device, std::size_t bytes) {
    VOLLEY_CUDA_CHECK(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, out_.cuda_stream.get()));
    out_.events[place].record(out_.cuda_stream);
  }
  void begin_in(std::uint64_t place, std::byte* device, const std::byte* host, std::size_t bytes) {
    VOLLEY_CUDA_CHECK(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, in_.cuda_stream.get()));
    in_.events[place].record(in_.cuda_stream);
  }
  [[nodiscard]] bool out_done(std::uint64_t place) { return out_.events[place].happened(); }
  [[nodiscard]] bool in_done(std::uint64_t place) { return in_.events[place].happened(); }

 private:
  struct CopyQueue {
    gpu::Stream cuda_stream;
    std::vector<gpu::Event> events;  // one a place
  };
  CopyQueue out_;
  CopyQueue in_;
};

}  // namespace volley
