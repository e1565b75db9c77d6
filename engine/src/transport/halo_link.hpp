// The halos between two neighbours: the channels that carry a ping-pong's messages carry these.
#pragma once

#include <string>

#include "transport/transport.hpp"

struct CUstream_st;  // a CUDA stream, known by name only: builds without CUDA read this file too

namespace volley {

// Every call but `unavailable` is made by both ranks of the pair, with views of one size at the same offsets in the
// buffers. A halo in device memory goes this way:
//   leave(view, cuda_stream)   behind the kernel that wrote view.send
//   start(view), finish() by the host, when the cuda_stream has come that far; left out where `host_driven` is false
//   arrive(view, cuda_stream)  in front of the kernel that reads view.recv
// One in host memory needs start() and finish() only.
//
// Two places of the buffers take turns. A rank sends halo n + 2 into the place of halo n only after it has received
// halo n + 1, and the neighbour sent that after it had read halo n: nobody overwrites what is still being read.
class HaloLink {
 public:
  virtual ~HaloLink() = default;
  // Why this rank cannot use it; empty when it can.
  [[nodiscard]] virtual std::string unavailable(const Context& context, const RankGroup& pair) = 0;
  // Makes ready for halos as long as this view, anywhere in the first `capacity` bytes of the buffers.
  virtual void open(const Context& context, const RankGroup& pair, const Buffers& buffers, std::size_t capacity,
                    const View& view) = 0;
  // Whether start() and finish() move something.
  [[nodiscard]] virtual bool host_driven() const { return true; }
  // Whether what leave() and arrive() enqueue are copies to and from messages in host memory.
  [[nodiscard]] virtual bool bounces() const { return false; }

  virtual void leave(const View&, CUstream_st*) {}
  // Puts this rank's halo in flight and expects the neighbour's.
  virtual void start(const View& view) = 0;
  // Lets a library move the bytes that needs calls for it. Throws when something failed that no call has returned.
  virtual void progress() = 0;
  // Returns when the neighbour's halo is usable and this rank's may be overwritten.
  virtual void finish() = 0;
  virtual void arrive(const View&, CUstream_st*) {}
  virtual void close() = 0;
};

// A channel of host_driven.hpp that has progress() too, on the memory that it works on in a ping-pong.
template <class Channel>
class HaloOver final : public HaloLink {
 public:
  std::string unavailable(const Context& context, const RankGroup& pair) override {
    return channel_.unavailable(context, pair);
  }
  void open(const Context& context, const RankGroup& pair, const Buffers& buffers, std::size_t capacity,
            const View& view) override {
    channel_.open(context, pair, buffers, capacity);
    channel_.prepare(view);
  }
  void start(const View& view) override {
    channel_.start_recv(view);
    channel_.start_send(view);
  }
  void progress() override { channel_.progress(); }
  void finish() override { channel_.finish(); }
  void close() override { channel_.close(); }

 private:
  Channel channel_;
};

}  // namespace volley
