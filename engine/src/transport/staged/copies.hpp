// Copies between device and host memory, as a chunk pipeline asks for them, and whole ones for a round trip.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "gpu/runtime.hpp"

namespace volley {

// Blocking copies on the default stream, as in the tutorial. A copy from pageable memory may return before its bytes
// are on the device. Later copies of the stream wait for them, but the clock and other streams do not, so a batch ends
// with synchronize().
class BlockingCopies {
 public:
  void open() {}
  void close() {}
  void copy_out(std::byte* host, const std::byte* device, std::size_t bytes) { gpu::copy_to_host(host, device, bytes); }
  void copy_in(std::byte* device, const std::byte* host, std::size_t bytes) {
    gpu::copy_to_device(device, host, bytes);
  }
  void synchronize() { gpu::synchronize_default_stream(); }

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

// Asynchronous copies from and to pinned memory, with a stream for each direction and an event behind each copy.
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
    gpu::copy_to_host_async(host, device, bytes, out_.cuda_stream.get());
    out_.cuda_stream.synchronize();
  }
  void copy_in(std::byte* device, const std::byte* host, std::size_t bytes) {
    gpu::copy_to_device_async(device, host, bytes, in_.cuda_stream.get());
    in_.cuda_stream.synchronize();
  }
  void synchronize() {}  // every copy was seen complete

  void prepare(std::uint64_t slots) {
    for (auto* direction : {&out_, &in_}) {
      while (direction->events.size() < slots) direction->events.push_back(gpu::Event::make());
    }
  }
  void begin_out(std::uint64_t slot, std::byte* host, const std::byte* device, std::size_t bytes) {
    gpu::copy_to_host_async(host, device, bytes, out_.cuda_stream.get());
    out_.events[slot].record(out_.cuda_stream);
  }
  void begin_in(std::uint64_t slot, std::byte* device, const std::byte* host, std::size_t bytes) {
    gpu::copy_to_device_async(device, host, bytes, in_.cuda_stream.get());
    in_.events[slot].record(in_.cuda_stream);
  }
  [[nodiscard]] bool out_done(std::uint64_t slot) { return out_.events[slot].complete(); }
  [[nodiscard]] bool in_done(std::uint64_t slot) { return in_.events[slot].complete(); }

 private:
  struct CopyStream {
    gpu::Stream cuda_stream;
    std::vector<gpu::Event> events;  // one for each slot
  };
  CopyStream out_;
  CopyStream in_;
};

}  // namespace volley
