// The timed loops of all transports whose messages the host starts, and the channel for those whose messages MPI
// carries.
//
// A Channel has: open(pair, buffers), prepare(view), close();
//   send(view), recv(view)              one whole message of a round trip; recv returns when it is usable
//   start_send(view), start_recv(view)  start one message
//   finish()                            wait for all messages that were started
//   acknowledge(), await_acknowledgement()
//   unavailable(context, pair), host_memory_bytes(bytes, window), facts()
//                                       optional, as in Transport
// Both ranks pass the same view of a message: `view.send` is where the sender has it, too.
// The calls are inlined here: between the clock readings only the call that enters the loop is indirect.
#pragma once

#include "transport/collectives.hpp"

namespace volley {

// A channel whose whole message is one that is started and awaited.
template <class Channel>
class AwaitingEach : public Channel {
 public:
  using Channel::Channel;
  void send(const View& view) {
    this->start_send(view);
    this->finish();
  }
  void recv(const View& view) {
    this->start_recv(view);
    this->finish();
  }
};

template <class Channel>
class HostDriven : public Transport, public Messages {
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
  void prepare(const View& view, const std::optional<Window>&) override { channel_.prepare(view); }
  void close() override { channel_.close(); }
  [[nodiscard]] Driver* messages() override { return this; }

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
      if (!window.acknowledged(i, count)) continue;
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

 protected:
  Channel channel_;
  bool leads_ = false;
};

// A channel that also carries halos: messages both ways that are started and awaited.
template <class Channel>
class WithHalos : public HostDriven<Channel>, public HaloExchange {
 public:
  [[nodiscard]] HaloExchange* halo() override { return this; }
  void open_halo(const View& view) override { this->channel_.prepare(view); }
  void start(const View& view) override {
    this->channel_.start_recv(view);
    this->channel_.start_send(view);
  }
  void progress() override { this->channel_.progress(); }
  void finish() override { this->channel_.finish(); }
};

// Messages through MPI, from and to the memory that the view points at.
class MpiChannel {
 public:
  void open(const RankGroup& pair, const Buffers&) {
    comm_ = pair.data.get();
    peer_ = pair.peer();
    alone_ = pair.size() == 1;
  }

  void prepare(const View& view) {
    constexpr std::size_t most = std::numeric_limits<int>::max();
    // Of a datatype that long MPI_Accumulate ends MPICH 5.0 and moves nothing with Intel MPI 2021.
    const std::size_t unit = view.bytes > most && view.bytes % sizeof(std::int64_t) == 0 ? sizeof(std::int64_t) : 1;
    const bool large = view.bytes / unit > most;
    if (large) large_ = large_datatype(view.bytes);
    elements_ = large ? 1 : static_cast<int>(view.bytes / unit);
    type_ = large ? large_.get() : unit > 1 ? MPI_INT64_T : MPI_BYTE;
  }

  void close() {
    large_ = {};
    requests_ = {};
  }

  void send(const View& view) { VOLLEY_MPI(MPI_Send(view.send, elements_, type_, peer_, message_tag, comm_)); }

  void recv(const View& view) {
    VOLLEY_MPI(MPI_Recv(view.recv, elements_, type_, peer_, message_tag, comm_, MPI_STATUS_IGNORE));
  }

  void start_send(const View& view) {
    VOLLEY_MPI(MPI_Isend(view.send, elements_, type_, peer_, message_tag, comm_, requests_.add()));
  }

  void start_recv(const View& view) {
    VOLLEY_MPI(MPI_Irecv(view.recv, elements_, type_, peer_, message_tag, comm_, requests_.add()));
  }

  void finish() { requests_.wait(); }

  // MPI moves large messages only during its calls.
  void progress() { requests_.test(); }

  // A rank that sends to itself needs no acknowledgement, and MPI_Send would wait for a receive that comes only later.
  void acknowledge() {
    if (alone_) return;
    VOLLEY_MPI(MPI_Send(&acknowledgement_, 1, MPI_INT, peer_, acknowledgement_tag, comm_));
  }

  void await_acknowledgement() {
    if (alone_) return;
    VOLLEY_MPI(MPI_Recv(&acknowledgement_, 1, MPI_INT, peer_, acknowledgement_tag, comm_, MPI_STATUS_IGNORE));
  }

 protected:  // for channels that derive from this one
  static constexpr int message_tag = 10;
  static constexpr int acknowledgement_tag = 20;

  MPI_Comm comm_ = MPI_COMM_NULL;
  int peer_ = 0;
  bool alone_ = false;  // this rank is its own peer
  int elements_ = 0;
  MPI_Datatype type_ = MPI_BYTE;
  LargeDatatype large_;
  int acknowledgement_ = 0;
  RequestList requests_;
};

// `host` and `aware`.
class MpiTransport : public WithHalos<MpiChannel>, public MpiCollectives {
 public:
  [[nodiscard]] Collectives* collectives() override { return this; }
  [[nodiscard]] std::string refuses(std::size_t) const override { return {}; }
};

}  // namespace volley
