// MPI through requests, on host memory (`host/...`) and on device pointers (`aware/...`):
//   nonblocking    MPI_Isend, MPI_Irecv and MPI_I... of collectives; each message or operation is awaited at once
//   persistent     requests that are made before a batch, MPI_Start and MPI_Wait
#include <algorithm>
#include <map>

#include "transport/host_driven.hpp"

namespace volley {
namespace {

// A channel whose whole message is one that is started and awaited.
template <class Channel>
class AwaitingEach : public Channel {
 public:
  void send(const View& view) {
    this->start_send(view);
    this->finish();
  }
  void recv(const View& view) {
    this->start_recv(view);
    this->finish();
  }
};

// Calls visit(message) for the messages of a call, or for the first ones of its windows, that need requests of their
// own: in timed calls all but the last one have one place.
template <class Visit>
void for_each_different(const View& view, std::uint64_t count, std::uint64_t window, Visit visit) {
  const std::uint64_t different = view.stride > 0 ? count : std::min<std::uint64_t>(count, 2);
  for (std::uint64_t i = 1; i <= different; ++i) {
    visit((i < different ? view : view.last()).message((i - 1) * window));
  }
}

// The messages of a batch; each has a request of its own, so that those of a window are in flight together.
class PersistentChannel : public MpiChannel {
 public:
  // Makes the requests for `count` windows, or round trips without one. Outside the timing.
  void make_requests(const View& view, std::uint64_t count, std::uint64_t window) {
    for_each_different(view, count, window, [&](const View& each) {
      for (std::uint64_t n = 0; n < window; ++n) {
        const View message = each.message(n);
        VOLLEY_MPI(
            MPI_Send_init(message.send, elements_, type_, peer_, message_tag, comm_, sends_[message.send].add()));
        VOLLEY_MPI(
            MPI_Recv_init(message.recv, elements_, type_, peer_, message_tag, comm_, receives_[message.recv].add()));
      }
    });
  }

  void free_requests() {
    for (auto* all : {&sends_, &receives_}) {
      for (auto& [place, requests] : *all) {
        for (auto& request : requests.all) VOLLEY_MPI(MPI_Request_free(&request));
      }
      all->clear();
    }
  }

  void start_send(const View& view) { start(sends_.find(view.send)->second); }
  void start_recv(const View& view) { start(receives_.find(view.recv)->second); }

  void finish() {
    for (Requests* requests : started_) {
      VOLLEY_MPI(MPI_Wait(&requests->all[--requests->active], MPI_STATUS_IGNORE));
    }
    started_.clear();
  }

 private:
  // Those of messages at one place of a buffer.
  struct Requests {
    std::vector<MPI_Request> all;
    std::size_t active = 0;

    [[nodiscard]] MPI_Request* add() { return &all.emplace_back(); }
  };

  void start(Requests& requests) {
    VOLLEY_MPI(MPI_Start(&requests.all[requests.active++]));
    started_.push_back(&requests);
  }

  std::map<const std::byte*, Requests> sends_, receives_;
  std::vector<Requests*> started_;
};

// A collective whose requests are made before a batch: of MPI_..._init all ranks make the same calls in the same order.
class PersistentCollective final : public Driver {
 public:
  explicit PersistentCollective(const Collective& collective) : collective_(collective) {}

  void prepare(const View& view, const std::optional<Window>&) override { call_ = mpi_call(collective_, view.bytes); }

  void arm(const View& view, std::uint64_t count) override {
    static const MpiCollectiveForm<MPI_Info, MPI_Request*> persistent{
        VOLLEY_MPI_COLLECTIVES(VOLLEY_MPI_PERSISTENT, VOLLEY_MPI_NAME)};
    for_each_different(view, count, 1, [&](const View& here) {
      persistent(call_, here.send, here.recv, MPI_INFO_NULL, &requests_.emplace_back());
    });
    repeats_ = view.stride == 0;
  }

  void run(const View&, std::uint64_t count, const std::optional<Window>&) override {
    for (std::uint64_t i = 1; i <= count; ++i) {
      MPI_Request* const request = i == count ? &requests_.back() : &requests_[repeats_ ? 0 : i - 1];
      VOLLEY_MPI(MPI_Start(request));
      VOLLEY_MPI(MPI_Wait(request, MPI_STATUS_IGNORE));
    }
  }

  void disarm() override {
    for (auto& request : requests_) VOLLEY_MPI(MPI_Request_free(&request));
    requests_.clear();
  }

 private:
  const Collective collective_;
  MpiCall call_;
  std::vector<MPI_Request> requests_;
  bool repeats_ = false;
};

template <class Channel>
class Requesting : public HostDriven<AwaitingEach<Channel>>, public MpiCollectives {
 public:
  [[nodiscard]] Collectives* collectives() override { return this; }
  [[nodiscard]] bool carries_empty_messages() const override { return true; }
};

class Nonblocking final : public Requesting<MpiChannel> {
  void perform(const Collective& collective, const View& view, std::uint64_t count) override {
    const MpiCall call = mpi_call(collective, view.bytes);
    for_each_operation(view, count, [&](const View& here) {
      MPI_Request request{};
      nonblocking_collectives(call, here.send, here.recv, &request);
      VOLLEY_MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
    });
  }
};

class Persistent final : public Requesting<PersistentChannel> {
  std::string unavailable(const Context&, const RankGroup&) override {
#define VOLLEY_LACKS(name, ...) \
  if (name == nullptr) return "this MPI library has no " #name ", of MPI 4.0";
    VOLLEY_MPI_PERSISTENT_FUNCTIONS(VOLLEY_LACKS)
#undef VOLLEY_LACKS
    return {};
  }
  void prepare(const View& view, const std::optional<Window>& window) override {
    HostDriven::prepare(view, window);
    window_ = window ? static_cast<std::uint64_t>(window->messages) : 1;
  }
  void arm(const View& view, std::uint64_t count) override { channel_.make_requests(view, count, window_); }
  void disarm() override { channel_.free_requests(); }
  [[nodiscard]] std::unique_ptr<Driver> driver(const Collective& collective) override {
    return std::make_unique<PersistentCollective>(collective);
  }

  std::uint64_t window_ = 1;
};

}  // namespace

std::unique_ptr<Transport> make_nonblocking() { return std::make_unique<Nonblocking>(); }
std::unique_ptr<Transport> make_persistent() { return std::make_unique<Persistent>(); }

}  // namespace volley
