// The timed loops of all transports whose messages the host starts.
//
// A Channel has: open(pair, buffers), prepare(view), close();
//   send(view), recv(view)              one whole message of a round trip; recv returns when it is usable
//   start_send(view), start_recv(view)  start one message
//   finish()                            wait for all messages that were started
//   acknowledge(), await_acknowledgement()
//   progress()                          optional; makes progress with halos that were started
//   unavailable(context, pair), host_memory_bytes(bytes, window), facts()
//                                       optional, as in Transport
// Both ranks pass the same view of a message: `view.send` is where the sender has it, too.
// The calls are inlined here: between the clock readings only the call that enters the loop is indirect.
#pragma once

#include <utility>

#include "transport/transport.hpp"

namespace volley {

template <class Channel>
class HostDriven : public Transport {
 public:
  template <class... Arguments>
  explicit HostDriven(Arguments&&... arguments) : channel_(std::forward<Arguments>(arguments)...) {}

  std::string unavailable(const Context& context, const RankGroup& pair) override {
    if constexpr (requires { channel_.unavailable(context, pair); }) return channel_.unavailable(context, pair);
    return {};
  }
  void open(const RankGroup& pair, const Buffers& buffers) override {
    leads_ = pair.leads();
    channel_.open(pair, buffers);
  }
  void prepare(const View& view) override { channel_.prepare(view); }
  void close() override { channel_.close(); }

  void round_trips(const View& view, std::uint64_t exchanges) override {
    const View last = view.last();
    if (leads_) {
      for (std::uint64_t i = 1; i <= exchanges; ++i) {
        const View message = (i < exchanges ? view : last).message(i - 1);
        channel_.send(message);
        channel_.recv(message);
      }
    } else {
      for (std::uint64_t i = 1; i <= exchanges; ++i) {
        const View message = (i < exchanges ? view : last).message(i - 1);
        channel_.recv(message);
        channel_.send(message);
      }
    }
  }

  void windows(const View& view, std::uint64_t count, const Window& window) override {
    const bool sends = window.sends(leads_);
    const bool receives = window.receives(leads_);
    const View last = view.last();
    const auto messages = static_cast<std::uint64_t>(window.messages);
    for (std::uint64_t i = 1; i <= count; ++i) {
      const View each = (i < count ? view : last).message((i - 1) * messages);
      if (receives) {
        for (std::uint64_t n = 0; n < messages; ++n) channel_.start_recv(each.message(n));
      }
      if (sends) {
        for (std::uint64_t n = 0; n < messages; ++n) channel_.start_send(each.message(n));
      }
      channel_.finish();
      if (receives) channel_.acknowledge();
      if (sends) channel_.await_acknowledgement();
    }
  }

  [[nodiscard]] std::uint64_t host_memory_bytes(std::uint64_t bytes,
                                                const std::optional<Window>& window) const override {
    if constexpr (requires { channel_.host_memory_bytes(bytes, window); }) {
      return channel_.host_memory_bytes(bytes, window);
    }
    return 0;
  }

  [[nodiscard]] Json facts() const override {
    if constexpr (requires { channel_.facts(); }) return channel_.facts();
    return Json::object();
  }

  void open_halo(const View& view) override { channel_.prepare(view); }
  void start(const View& view) override {
    channel_.start_recv(view);
    channel_.start_send(view);
  }
  void progress() override {
    if constexpr (requires { channel_.progress(); }) channel_.progress();
  }
  void finish() override { channel_.finish(); }

 protected:
  Channel channel_;
  bool leads_ = false;
};

}  // namespace volley
