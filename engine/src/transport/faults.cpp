// Transports that break on purpose, to show that the engine notices. Used only when asked for by name.
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "base/clock.hpp"
#include "transport/faults.hpp"
#include "transport/halo_link.hpp"
#include "transport/host_driven.hpp"
#include "transport/makers.hpp"
#include "transport/mpi_channel.hpp"

namespace volley {

namespace {

// Moves everything and then flips one bit of the last message of each batch: another place each time.
class Corrupt final : public HostDriven<MpiChannel> {
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
  void flip(const View& view) { Bit(batches_++, view.bytes).flip(view.recv); }
  std::uint64_t batches_ = 0;
};

// Halos that arrive as they were sent; then `spoil` gets them, with how many came before.
template <void (*spoil)(const View& view, std::uint64_t before)>
struct SpoilingHaloChannel : MpiChannel {
  void start_recv(const View& view) {
    view_ = view;
    MpiChannel::start_recv(view);
  }
  void progress() {}
  void finish() {
    MpiChannel::finish();
    spoil(view_, halos_++);
  }

 private:
  View view_;
  std::uint64_t halos_ = 0;
};

// The first is left as it is, of every later one a bit is wrong.
void flip_a_bit(const View& view, std::uint64_t before) {
  if (before > 0) Bit(before, view.bytes).flip(view.recv);
}
using CorruptHaloChannel = SpoilingHaloChannel<flip_a_bit>;

// The fifth, that is of the fourth iteration, is all ones: every point of it a NaN.
void fill_with_nans(const View& view, std::uint64_t before) {
  if (before == 4) std::fill_n(view.recv, view.bytes, std::byte{0xFF});
}
using NanHaloChannel = SpoilingHaloChannel<fill_with_nans>;

// Of each batch only the first exchange, or window, is made.
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

// No message leaves the rank: what it sent is what it gets. Acknowledgements are real, so that windows end.
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
  void open(const Context& context, const RankGroup& pair, const Buffers& buffers, std::size_t capacity) {
    MpiChannel::open(context, pair, buffers, capacity);
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

// The second rank has no room for what the transport needs, as the first finds out only by waiting for it.
struct UnopenedChannel : MpiChannel {
  void open(const Context& context, const RankGroup& pair, const Buffers& buffers, std::size_t capacity) {
    if (!pair.leads()) throw std::bad_alloc();
    MpiChannel::open(context, pair, buffers, capacity);
    VOLLEY_MPI(MPI_Barrier(pair.control.get()));
  }
};

// A slow pair among like ones: ranks 0 and 2 wait before each message to each other.
struct DelayChannel : MpiChannel {
  void open(const Context& context, const RankGroup& pair, const Buffers& buffers, std::size_t capacity) {
    MpiChannel::open(context, pair, buffers, capacity);
    slow_ = std::min(pair.ranks[0], pair.ranks[1]) == 0 && std::max(pair.ranks[0], pair.ranks[1]) == 2;
  }
  void send(const View& view) {
    dawdle();
    MpiChannel::send(view);
  }
  void start_send(const View& view) {
    dawdle();
    MpiChannel::start_send(view);
  }

 private:
  void dawdle() const {
    const auto begun = Clock::now();
    while (slow_ && seconds_since(begun) < 0.2e-3) continue;
  }
  bool slow_ = false;
};

}  // namespace

std::unique_ptr<Transport> make_corrupt() { return std::make_unique<Corrupt>(); }
std::unique_ptr<Transport> make_early() { return std::make_unique<Early>(); }
std::unique_ptr<Transport> make_echo() { return std::make_unique<HostDriven<EchoChannel>>(); }
std::unique_ptr<HaloLink> make_corrupt_halo() { return std::make_unique<HaloOver<CorruptHaloChannel>>(); }
std::unique_ptr<HaloLink> make_nan_halo() { return std::make_unique<HaloOver<NanHaloChannel>>(); }
std::unique_ptr<HaloLink> make_echo_halo() { return std::make_unique<HaloOver<EchoChannel>>(); }
std::unique_ptr<Transport> make_hang() { return std::make_unique<HostDriven<HangChannel>>(); }
std::unique_ptr<Transport> make_unopened() { return std::make_unique<HostDriven<UnopenedChannel>>(); }
std::unique_ptr<Transport> make_delay() { return std::make_unique<HostDriven<DelayChannel>>(); }

}  // namespace volley
