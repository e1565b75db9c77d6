// The halos between two neighbours: the channels that carry a ping-pong's messages carry these.
#pragma once

#include <string>

#include "transport.hpp"

namespace volley {

// Every call but `unavailable` is made by both ranks of the pair, with views of the same size.
class HaloLink {
 public:
  virtual ~HaloLink() = default;
  // Why this rank cannot use it; empty when it can.
  [[nodiscard]] virtual std::string unavailable(const Context& context, const Pair& pair) = 0;
  // Makes ready for halos of this view.
  virtual void open(const Context& context, const Pair& pair, const View& view) = 0;
  // Puts this rank's halo in flight and expects the neighbour's.
  virtual void start() = 0;
  // Lets a library move the bytes that needs calls for it.
  virtual void progress() = 0;
  // Returns when the neighbour's halo is usable and this rank's may be overwritten.
  virtual void finish() = 0;
  virtual void close() = 0;
};

// A channel of host_driven.hpp that has progress() too.
template <class Channel>
class HaloOver final : public HaloLink {
 public:
  std::string unavailable(const Context& context, const Pair& pair) override {
    return channel_.unavailable(context, pair);
  }
  void open(const Context& context, const Pair& pair, const View& view) override {
    view_ = view;
    channel_.open(context, pair, {view.send, view.recv}, view.bytes);
    channel_.prepare(view);
  }
  void start() override {
    channel_.start_recv(view_);
    channel_.start_send(view_);
  }
  void progress() override { channel_.progress(); }
  void finish() override { channel_.finish(); }
  void close() override { channel_.close(); }

 private:
  Channel channel_;
  View view_;
};

}  // namespace volley
