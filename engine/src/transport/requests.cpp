// MPI through requests, on host memory (`host/...`) and on device pointers (`aware/...`):
//   nonblocking    MPI_Isend, MPI_Irecv and MPI_I... of collectives; each message or operation is awaited at once
//   persistent     requests that are made once for the batches of a visit, MPI_Start and MPI_Wait
//   partitioned    the same, of messages in 8 parts: MPI_Start, MPI_Pready of each part and MPI_Wait
#include <algorithm>
#include <map>
#include <utility>

#include "transport/host_driven.hpp"

namespace volley {
namespace {

// Calls visit(message) for the messages of a call, or for the first ones of its windows, that need requests of their
// own: in timed calls all but the last one have one place.
template <class Visit>
void for_each_different(const View& view, std::uint64_t count, std::uint64_t window, Visit visit) {
  const std::uint64_t different = view.stride > 0 ? count : std::min<std::uint64_t>(count, 2);
  for (std::uint64_t i = 1; i <= different; ++i) {
    visit((i < different ? view : view.last()).message((i - 1) * window));
  }
}

// The messages of a batch; each has a request of its own, so that those of a window are in flight together. The next
// batches start them again, as applications do: the first start of a request may take ten times as long. Partitioned
// requests are matched when they are made: both ranks find those of a message by where it is sent from.
template <bool partitioned>
class PersistentChannel : public MpiChannel {
 public:
  // Makes the requests that `count` windows of so many messages, or round trips, lack. Outside the timing.
  void make_requests(const View& view, std::uint64_t count, std::uint64_t window, bool sends, bool receives) {
    many_places_ = view.stride > 0;
    for_each_different(view, count, window, [&](const View& each) {
      for (std::uint64_t n = 0; n < window; ++n) {
        const View message = each.message(n);
        if (sends) add(sends_[places_of(message)], message, n, true);
        if (receives) add(receives_[places_of(message)], message, n, false);
      }
    });
  }
  void end_batch() {
    if (many_places_) free_requests();
  }

  void free_requests() {
    for (auto* all : {&sends_, &receives_}) {
      for (auto& [place, requests] : *all) {
        for (auto& request : requests.all) VOLLEY_MPI(MPI_Request_free(&request));
      }
      all->clear();
    }
  }

  void start_send(const View& view) {
    const MPI_Request request = start(sends_.find(places_of(view))->second);
    for (int part = 0; partitioned && part < parts_of(view); ++part) VOLLEY_MPI(MPI_Pready(part, request));
  }
  void start_recv(const View& view) { start(receives_.find(places_of(view))->second); }

  void finish() {
    for (Requests* requests : started_) {
      VOLLEY_MPI(MPI_Wait(&requests->all[--requests->active], MPI_STATUS_IGNORE));
    }
    started_.clear();
  }

 private:
  // Where a message is sent from and where it arrives: the one may be the same while the other differs.
  using Places = std::pair<const std::byte*, const std::byte*>;
  static Places places_of(const View& view) { return {view.send, view.recv}; }

  // Those of messages at the same places.
  struct Requests {
    std::vector<MPI_Request> all;
    std::size_t active = 0;

    [[nodiscard]] MPI_Request* add() { return &all.emplace_back(); }
  };

  // A message that cannot be divided is one part.
  static int parts_of(const View& view) { return view.bytes % 8 == 0 ? 8 : 1; }

  // Makes the request of message n of a window, unless a batch before has made it.
  void add(Requests& of_place, const View& message, std::uint64_t n, bool sends) {
    if (!many_places_ && n < of_place.all.size()) return;
    MPI_Request* const made = of_place.add();
    if constexpr (partitioned) {
      const int parts = parts_of(message);
      const auto bytes = static_cast<MPI_Count>(message.bytes) / parts;
      if (sends) {
        VOLLEY_MPI(
            MPI_Psend_init(message.send, parts, bytes, MPI_BYTE, peer_, message_tag, comm_, MPI_INFO_NULL, made));
      } else {
        VOLLEY_MPI(
            MPI_Precv_init(message.recv, parts, bytes, MPI_BYTE, peer_, message_tag, comm_, MPI_INFO_NULL, made));
      }
    } else if (sends) {
      VOLLEY_MPI(MPI_Send_init(message.send, elements_, type_, peer_, message_tag, comm_, made));
    } else {
      VOLLEY_MPI(MPI_Recv_init(message.recv, elements_, type_, peer_, message_tag, comm_, made));
    }
  }

  MPI_Request start(Requests& requests) {
    MPI_Request& request = requests.all[requests.active++];
    VOLLEY_MPI(MPI_Start(&request));
    started_.push_back(&requests);
    return request;
  }

  std::map<Places, Requests> sends_, receives_;
  bool many_places_ = false;
  std::vector<Requests*> started_;
};

#define VOLLEY_LACKS(name, ...) \
  if (name == nullptr) return "this MPI library has no " #name ", of MPI 4.0";

// A collective whose requests are made once for the batches of a visit: of MPI_..._init all ranks make the same calls
// in the same order.
class PersistentCollective final : public Driver {
 public:
  explicit PersistentCollective(const Collective& collective) : collective_(collective) {}

  void prepare(const View& view, const std::optional<Window>&) override {
    if (const std::string why = lacking(); !why.empty()) throw std::runtime_error(why);
    rest();
    call_ = mpi_call(collective_, view.bytes);
  }

  void arm(const View& view, std::uint64_t count, const std::optional<Window>&) override {
    static const MpiCollectiveForm<MPI_Info, MPI_Request*> persistent{
        VOLLEY_MPI_COLLECTIVES(VOLLEY_MPI_PERSISTENT, VOLLEY_MPI_NAME)};
    for_each_different(view, count, 1, [&](const View& here) {
      auto [made, is_new] = made_.try_emplace(here.send);
      if (is_new) persistent(call_, here.send, here.recv, MPI_INFO_NULL, &made->second);
      batch_.push_back(made->second);
    });
    repeats_ = view.stride == 0;
    many_places_ = view.apart();
  }

  void run(const View&, std::uint64_t count, const std::optional<Window>&) override {
    for (std::uint64_t i = 1; i <= count; ++i) {
      MPI_Request request = i == count ? batch_.back() : batch_[repeats_ ? 0 : i - 1];
      VOLLEY_MPI(MPI_Start(&request));
      VOLLEY_MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
    }
  }

  void disarm() override {
    batch_.clear();
    if (many_places_) rest();
  }
  void rest() override {
    for (auto& [place, request] : made_) VOLLEY_MPI(MPI_Request_free(&request));
    made_.clear();
  }

 private:
  // What the library has not of all that MPI 4.0 has.
  static std::string lacking() {
    VOLLEY_MPI_PERSISTENT_FUNCTIONS(VOLLEY_LACKS)
    return {};
  }

  const Collective collective_;
  MpiCall call_;
  std::map<const std::byte*, MPI_Request> made_;
  std::vector<MPI_Request> batch_;  // those of its messages, in this order
  bool repeats_ = false;
  bool many_places_ = false;
};

template <class Channel>
class Requesting : public HostDriven<AwaitingEach<Channel>>, public MpiCollectives {
 public:
  [[nodiscard]] Collectives* collectives() override { return this; }
  [[nodiscard]] std::string refuses(std::size_t) const override { return {}; }
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

template <bool partitioned>
class WithRequests : public Requesting<PersistentChannel<partitioned>> {
  void prepare(const View& view, const std::optional<Window>&) override {
    this->channel_.free_requests();
    this->channel_.prepare(view);
  }
  void close() override {
    this->channel_.free_requests();
    Requesting<PersistentChannel<partitioned>>::close();
  }
  // Requests that are never started may stay in the library, and take a part of all that it does later.
  void arm(const View& view, std::uint64_t count, const std::optional<Window>& window) override {
    const bool sends = !window || window->sends(this->leads_);
    const bool receives = !window || window->receives(this->leads_);
    this->channel_.make_requests(view, count, messages_per_count(window), sends, receives);
  }
  void disarm() override { this->channel_.end_batch(); }
  void rest() override { this->channel_.free_requests(); }
  [[nodiscard]] bool restarts() const override { return true; }
  [[nodiscard]] std::string keeps_place() const override { return "persistent requests are made for one place"; }
};

class Persistent final : public WithRequests<false> {
  [[nodiscard]] std::unique_ptr<Driver> driver(const Collective& collective) override {
    return std::make_unique<PersistentCollective>(collective);
  }
  [[nodiscard]] std::unique_ptr<HaloExchange> exchange(const Collective&) override { return nullptr; }
};

class Partitioned final : public WithRequests<true> {
  std::string unavailable(const Context& context, const RankGroup& pair) override {
    VOLLEY_MPI_PARTITIONED_FUNCTIONS(VOLLEY_LACKS)
    // Open MPI 5.0 ends with a segmentation fault where two threads make progress with them, in
    // mca_part_persist_progress; and it duplicates MPI_COMM_WORLD when the first one is made, which waits for all ranks
    // of the job.
    if (!mpi_library().starts_with("Open MPI")) return {};
    if (mpi_lets_threads_call()) {
      return "Open MPI's partitioned messages crash beside host/threads: measure them alone, -t host/partitioned";
    }
    return context.size == pair.size() ? "" : "with Open MPI it needs a job of two ranks: the first call waits for all";
  }
  [[nodiscard]] Collectives* collectives() override { return nullptr; }
  [[nodiscard]] std::string refuses(std::size_t bytes) const override { return Transport::refuses(bytes); }
};
#undef VOLLEY_LACKS

}  // namespace

std::unique_ptr<Transport> make_nonblocking() { return std::make_unique<Nonblocking>(); }
std::unique_ptr<Transport> make_partitioned() { return std::make_unique<Partitioned>(); }
std::unique_ptr<Transport> make_persistent() { return std::make_unique<Persistent>(); }

}  // namespace volley
