// Transports that break on purpose, to show that the engine notices. Used only if a user names them.
#include "transport/flipped_bit.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <vector>

#include "base/clock.hpp"
#include "transport/host_driven.hpp"
#include "transport/mpi_channel.hpp"

namespace volley {

namespace {

// Changes halos after they have arrived. They are counted from 0.
class ChangedHalos : public HostDriven<MpiChannel> {
 public:
  void start(const View& view) override {
    halo_ = view;
    HostDriven::start(view);
  }
  void progress() override {}
  void finish() override {
    HostDriven::finish();
    change(halo_, halos_++);
  }

 private:
  virtual void change(const View& halo, std::uint64_t number) = 0;
  View halo_;
  std::uint64_t halos_ = 0;
};

// Flips one bit of the last message of each batch, and of each halo except the first.
class Corrupt final : public ChangedHalos {
 public:
  void round_trips(const View& view, std::uint64_t exchanges) override {
    HostDriven::round_trips(view, exchanges);
    if (exchanges > 0) flip(view);
  }
  void windows(const View& view, std::uint64_t count, const Window& window) override {
    HostDriven::windows(view, count, window);
    if (count > 0) flip(view);
  }

 private:
  void change(const View& halo, std::uint64_t number) override {
    if (number > 0) flip(halo);
  }
  void flip(const View& view) { FlippedBit(flipped_++, view.bytes).flip(view.recv); }
  std::uint64_t flipped_ = 0;
};

// All bits of the fifth halo, which belongs to the fourth iteration, are ones: every point is a NaN.
class NotANumber final : public ChangedHalos {
  void change(const View& halo, std::uint64_t number) override {
    if (number == 4) std::fill_n(halo.recv, halo.bytes, std::byte{0xFF});
  }
};

// Makes only the first exchange or window of each batch.
class Early final : public HostDriven<MpiChannel> {
 public:
  void round_trips(const View& view, std::uint64_t exchanges) override {
    HostDriven::round_trips(exchanges > 1 ? first_of(view) : view, std::min<std::uint64_t>(exchanges, 1));
  }
  void windows(const View& view, std::uint64_t count, const Window& window) override {
    HostDriven::windows(count > 1 ? first_of(view) : view, std::min<std::uint64_t>(count, 1), window);
  }

 private:
  static View first_of(const View& view) { return {view.send, view.recv, view.bytes}; }
};

// Receives some messages at a wrong place; the number of the message in its batch of round trips or window decides.
class MisplacingChannel : public MpiChannel {
 public:
  virtual ~MisplacingChannel() = default;
  void expect(std::uint64_t messages) {
    expected_ = messages;
    received_ = 0;
  }
  void recv(const View& view) { MpiChannel::recv({nullptr, place_of(view), view.bytes}); }
  void start_recv(const View& view) { MpiChannel::start_recv({nullptr, place_of(view), view.bytes}); }
  void finish() {
    MpiChannel::finish();
    received_ = 0;
  }

 protected:
  virtual std::byte* place(const View& view, std::uint64_t number, std::uint64_t of) = 0;

 private:
  std::byte* place_of(const View& view) { return place(view, ++received_, expected_); }
  std::uint64_t expected_ = 0;
  std::uint64_t received_ = 0;
};

// The third message is lost.
class LosingChannel final : public MisplacingChannel {
  std::byte* place(const View& view, std::uint64_t number, std::uint64_t) override {
    if (number != 3) return view.recv;
    elsewhere_.resize(view.bytes);
    return elsewhere_.data();
  }
  std::vector<std::byte> elsewhere_;
};

// The first two messages arrive in each other's place.
class SwappingChannel final : public MisplacingChannel {
  std::byte* place(const View& view, std::uint64_t number, std::uint64_t of) override {
    if (of < 2 || number > 2) return view.recv;
    return number == 1 ? view.recv + view.stride : view.recv - view.stride;
  }
};

template <class Channel>
class Misplacing final : public HostDriven<Channel> {
 public:
  void round_trips(const View& view, std::uint64_t exchanges) override {
    this->channel_.expect(exchanges);
    HostDriven<Channel>::round_trips(view, exchanges);
  }
  void windows(const View& view, std::uint64_t count, const Window& window) override {
    this->channel_.expect(static_cast<std::uint64_t>(window.messages));
    HostDriven<Channel>::windows(view, count, window);
  }
};

// No message leaves the rank: it receives what it sent. Acknowledgements are real, so that windows end.
struct EchoChannel : MpiChannel {
  void send(const View&) {}
  void recv(const View& view) { std::memmove(view.recv, view.send, view.bytes); }
  void start_send(const View&) {}
  void start_recv(const View& view) { recv(view); }
  void finish() {}
  void progress() {}
};

// The second rank sleeps instead of answering its third message.
struct HangChannel : MpiChannel {
  void open(const RankGroup& pair, const Buffers& buffers) {
    MpiChannel::open(pair, buffers);
    second_ = !pair.leads();
  }
  void recv(const View& view) {
    stop_at_third();
    MpiChannel::recv(view);
  }
  void start_recv(const View& view) {
    stop_at_third();
    MpiChannel::start_recv(view);
  }

 private:
  void stop_at_third() {
    if (second_ && ++messages_ == 3) {
      while (true) pause();
    }
  }
  bool second_ = false;
  int messages_ = 0;
};

// The second rank has no room for what the transport needs.
struct UnopenedChannel : MpiChannel {
  void open(const RankGroup& pair, const Buffers& buffers) {
    if (!pair.leads()) throw std::bad_alloc();
    MpiChannel::open(pair, buffers);
  }
};

// One slow pair: ranks 0 and 2 wait before each message to each other.
struct DelayChannel : MpiChannel {
  void open(const RankGroup& pair, const Buffers& buffers) {
    MpiChannel::open(pair, buffers);
    slow_ = std::min(pair.rank(0), pair.rank(1)) == 0 && std::max(pair.rank(0), pair.rank(1)) == 2;
  }
  void send(const View& view) {
    wait();
    MpiChannel::send(view);
  }
  void start_send(const View& view) {
    wait();
    MpiChannel::start_send(view);
  }

 private:
  void wait() const {
    const auto begun = Clock::now();
    while (slow_ && seconds_since(begun) < 0.2e-3) continue;
  }
  bool slow_ = false;
};

}  // namespace

std::unique_ptr<Transport> make_corrupt() { return std::make_unique<Corrupt>(); }
std::unique_ptr<Transport> make_nan() { return std::make_unique<NotANumber>(); }
std::unique_ptr<Transport> make_early() { return std::make_unique<Early>(); }
std::unique_ptr<Transport> make_lose() { return std::make_unique<Misplacing<LosingChannel>>(); }
std::unique_ptr<Transport> make_swap() { return std::make_unique<Misplacing<SwappingChannel>>(); }
std::unique_ptr<Transport> make_echo() { return std::make_unique<HostDriven<EchoChannel>>(); }
std::unique_ptr<Transport> make_hang() { return std::make_unique<HostDriven<HangChannel>>(); }
std::unique_ptr<Transport> make_unopened() { return std::make_unique<HostDriven<UnopenedChannel>>(); }
std::unique_ptr<Transport> make_delay() { return std::make_unique<HostDriven<DelayChannel>>(); }

}  // namespace volley
