// One-sided MPI, on host memory (`host/...`) and on device pointers (`aware/...`):
//   put            MPI_Put, MPI_Win_flush, a notification
//   put/blocking   the same, and each message of a window is completed before the next one starts
//   put/fence      MPI_Put between two calls of MPI_Win_fence
//   put/pscw       MPI_Put between MPI_Win_start and MPI_Win_complete; the receiver calls MPI_Win_post and MPI_Win_wait
//   get            a notification that the message is exposed, then MPI_Get and MPI_Win_flush by the receiver
//   get/blocking   the same, and each message of a window is completed before the next one starts
//   get/pscw       MPI_Get as put/pscw, by the receiver
// The atomic calls, on host memory, are as put/blocking and get/blocking:
//   put/accumulate        MPI_Accumulate that replaces
//   get/accumulate        MPI_Get_accumulate that changes nothing
//   get/fetch-and-op      MPI_Fetch_and_op that adds 0 to 8 bytes
//   get/compare-and-swap  MPI_Compare_and_swap that may replace an 8-byte 0 by 0
#include <atomic>
#include <cstring>

#include "group/agreement.hpp"
#include "transport/host_driven.hpp"

namespace volley {
namespace {

// A window that frees itself: memory of this rank which other ranks read and write. Its calls return errors.
class RmaWindow : public Handle<MPI_Win, MPI_Win_free> {
 public:
  RmaWindow() = default;

  // A window over memory that this rank has; offsets in it are bytes. Collective over `comm`.
  [[nodiscard]] static RmaWindow over(std::byte* memory, std::size_t bytes, MPI_Comm comm) {
    MPI_Win made = MPI_WIN_NULL;
    VOLLEY_MPI(MPI_Win_create(memory, static_cast<MPI_Aint>(bytes), 1, MPI_INFO_NULL, comm, &made));
    return RmaWindow(made);
  }

  // A window over `bytes` of host memory that MPI allocates; `memory` points to them. Collective over `comm`.
  [[nodiscard]] static RmaWindow allocate(std::size_t bytes, MPI_Comm comm, void*& memory) {
    MPI_Win made = MPI_WIN_NULL;
    VOLLEY_MPI(MPI_Win_allocate(static_cast<MPI_Aint>(bytes), 1, MPI_INFO_NULL, comm, &memory, &made));
    return RmaWindow(made);
  }

  // From now on this rank may access the memory of all ranks, until unlock_all(). Not collective.
  void lock_all() {
    VOLLEY_MPI(MPI_Win_lock_all(MPI_MODE_NOCHECK, get()));
    locked_ = true;
  }
  void unlock_all() {
    if (std::exchange(locked_, false)) VOLLEY_MPI(MPI_Win_unlock_all(get()));
  }

  // Whether a rank sees in its own memory what others wrote there (MPI_WIN_UNIFIED).
  [[nodiscard]] bool unified() const {
    int* model = nullptr;
    int found = 0;
    VOLLEY_MPI(MPI_Win_get_attr(get(), MPI_WIN_MODEL, static_cast<void*>(&model), &found));
    return found != 0 && *model == MPI_WIN_UNIFIED;
  }

 private:
  explicit RmaWindow(MPI_Win owned) : Handle(owned) { VOLLEY_MPI(MPI_Win_set_errhandler(owned, MPI_ERRORS_RETURN)); }

  bool locked_ = false;
};

// Makes a window on both ranks, or throws on both. Collective over the pair.
template <class Make>
[[nodiscard]] RmaWindow agreed_window(const RankGroup& pair, const Make& make) {
  RmaWindow window;
  agreed_step(pair, [&] { window = make(); });
  const char* const separate =
      "the windows of this MPI have separate memory: a rank does not see what others put in it";
  const std::string reason = agreed_reason(pair, window.unified() ? "" : separate);
  if (reason.empty()) return window;
  window = RmaWindow();  // frees it on both ranks, which is not possible while an exception unwinds them
  throw std::runtime_error(reason);
}

// How the calls on a window are synchronised: made between MPI_Win_lock_all and MPI_Win_unlock_all, from open to close,
// and completed by MPI_Win_flush; by MPI_Win_fence; or by MPI_Win_post, MPI_Win_start, MPI_Win_complete, MPI_Win_wait.
enum class Epochs { locked, fenced, posted };

// The message buffers of a pair are windows.
class ExposingChannel : public MpiChannel {
 public:
  explicit ExposingChannel(Epochs epochs) : epochs_(epochs) {}

  // Collective over the pair, as is close(), also after an open() that failed.
  void open(const RankGroup& pair, const Buffers& buffers) {
    MpiChannel::open(pair, buffers);
    buffers_ = buffers;
    const std::size_t bytes = buffers.capacity + fill_room_bytes;
    send_ = agreed_window(pair, [&] { return RmaWindow::over(buffers.send, bytes, pair.data.get()); });
    recv_ = agreed_window(pair, [&] { return RmaWindow::over(buffers.recv, bytes, pair.data.get()); });
    if (epochs_ != Epochs::locked) return;
    agreed_step(pair, [&] {
      for (RmaWindow* window : {&send_, &recv_}) window->lock_all();
    });
  }

  void close() {
    for (RmaWindow* window : {&send_, &recv_}) {
      if (!*window) continue;
      if (epochs_ == Epochs::fenced) VOLLEY_MPI(MPI_Win_fence(MPI_MODE_NOSUCCEED, window->get()));
      window->unlock_all();
      *window = RmaWindow();
    }
    MpiChannel::close();
  }

 protected:
  // A place in one of the buffers; the same on both ranks.
  struct Place {
    MPI_Win window;
    MPI_Aint offset;
  };
  [[nodiscard]] Place place(const std::byte* at) const {
    // With fixed sampling a ping-pong receives in the send buffer.
    const bool sent = at >= buffers_.send && at < buffers_.send + buffers_.capacity + fill_room_bytes;
    return sent ? Place{send_.get(), at - buffers_.send} : Place{recv_.get(), at - buffers_.recv};
  }

 private:
  Epochs epochs_;
  Buffers buffers_;
  RmaWindow send_;
  RmaWindow recv_;
};

// How a rank tells the other one that data is in place: calls of one-sided MPI return only on the rank that makes them.
// Each rank counts its notifications in a byte of the other rank's memory; a byte cannot arrive half. "The data is
// there" and "acknowledged" follow each other in an order that both ranks know, so that one count is enough.
class Notifications {
 public:
  // Collective over the pair.
  void open(const RankGroup& pair) {
    comm_ = pair.data.get();
    peer_ = pair.peer();
    sent_ = awaited_ = 0;
    void* memory = nullptr;
    window_ = agreed_window(pair, [&] {
      RmaWindow window = RmaWindow::allocate(line_bytes, pair.data.get(), memory);
      received_ = static_cast<std::uint8_t*>(memory);
      *received_ = 0;
      return window;
    });
    agreed_step(pair, [&] { window_.lock_all(); });
    VOLLEY_MPI(MPI_Irecv(nullptr, 0, MPI_BYTE, peer_, end_tag, comm_, &end_));
  }

  // Collective over the pair; also after an open() that failed.
  void close() {
    if (end_ != MPI_REQUEST_NULL) {
      VOLLEY_MPI(MPI_Send(nullptr, 0, MPI_BYTE, peer_, end_tag, comm_));
      VOLLEY_MPI(MPI_Wait(&end_, MPI_STATUS_IGNORE));
    }
    window_.unlock_all();
    window_ = RmaWindow();
  }

  void notify() {
    ++sent_;
    VOLLEY_MPI(MPI_Put(&sent_, 1, MPI_BYTE, peer_, 0, 1, MPI_BYTE, window_.get()));
    VOLLEY_MPI(MPI_Win_flush(peer_, window_.get()));
  }

  // Waits for the next notification. An MPI may move the other rank's data only during calls of this rank: a test of a
  // request that is not complete is one. MPI_Win_sync need not be, and with UCX Open MPI 5 looks after windows in one
  // MPI_Iprobe of a hundred.
  void await() {
    ++awaited_;
    while (missing()) {
      int ended = 0;
      VOLLEY_MPI(MPI_Win_sync(window_.get()));
      VOLLEY_MPI(MPI_Test(&end_, &ended, MPI_STATUS_IGNORE));
    }
  }

 private:
  static constexpr std::size_t line_bytes = 64;
  static constexpr int end_tag = 80;

  // The other rank may be ahead by a few notifications, and the count begins again after 255.
  [[nodiscard]] bool missing() const {
    const std::uint8_t received = std::atomic_ref(*received_).load(std::memory_order_acquire);
    return static_cast<std::int8_t>(received - awaited_) < 0;
  }

  MPI_Comm comm_ = MPI_COMM_NULL;
  int peer_ = 0;
  RmaWindow window_;
  std::uint8_t* received_ = nullptr;
  MPI_Request end_ = MPI_REQUEST_NULL;  // a message that the other rank sends when it closes
  std::uint8_t sent_ = 0;
  std::uint8_t awaited_ = 0;
};

// Receivers are told of messages by notifications.
class NotifiedChannel : public ExposingChannel {
 public:
  NotifiedChannel() : ExposingChannel(Epochs::locked) {}

  void open(const RankGroup& pair, const Buffers& buffers) {
    ExposingChannel::open(pair, buffers);
    notifications_.open(pair);
  }

  void close() {
    notifications_.close();
    ExposingChannel::close();
  }

  void acknowledge() { notifications_.notify(); }
  void await_acknowledgement() { notifications_.await(); }

 protected:
  // What was put is in the other rank's memory, what was fetched in this rank's.
  void complete() { VOLLEY_MPI(MPI_Win_flush(peer_, window_)); }

  Notifications notifications_;
  MPI_Win window_ = MPI_WIN_NULL;  // of the latest message
  bool sending_ = false;
};

// MPI_Put or MPI_Accumulate into the receiver's buffer, and a notification when MPI_Win_flush has completed the
// messages there.
template <bool blocking, bool accumulates = false>
class PutChannel final : public NotifiedChannel {
 public:
  void send(const View& view) {
    put(view);
    complete();
    notifications_.notify();
  }

  void recv(const View& view) {
    notifications_.await();
    see(view);
  }

  void start_send(const View& view) {
    put(view);
    sending_ = true;
    if constexpr (blocking) complete();
  }

  void start_recv(const View& view) {
    receiving_ = true;
    arriving_ = view;
  }

  void finish() {
    if (std::exchange(sending_, false)) {
      complete();
      notifications_.notify();
    }
    if (std::exchange(receiving_, false)) {
      notifications_.await();
      see(arriving_);
    }
  }

 private:
  void put(const View& view) {
    const auto [window, offset] = place(view.recv);
    if constexpr (accumulates) {
      VOLLEY_MPI(MPI_Accumulate(view.send, elements_, type_, peer_, offset, elements_, type_, MPI_REPLACE, window));
    } else {
      VOLLEY_MPI(MPI_Put(view.send, elements_, type_, peer_, offset, elements_, type_, window));
    }
    window_ = window;
  }

  // What was put into this rank's window is in its memory.
  void see(const View& view) { VOLLEY_MPI(MPI_Win_sync(place(view.recv).window)); }

  View arriving_;
  bool receiving_ = false;
};

enum class GetCall { get, get_accumulate, fetch_and_op, compare_and_swap };

class GetChannel : public NotifiedChannel {
 public:
  GetChannel(GetCall call, bool blocking) : call_(call), blocking_(blocking) {}

  void send(const View& view) { expose(view); }

  void recv(const View& view) {
    notifications_.await();
    get(view);
    complete(view);
  }

  [[nodiscard]] bool gets_words() const { return call_ >= GetCall::fetch_and_op; }

  void start_send(const View& view) {
    sending_ = true;
    exposed_ = view;
  }
  void start_recv(const View& view) { wanted_.push_back(view); }

  void finish() {
    if (std::exchange(sending_, false)) expose(exposed_);
    if (wanted_.empty()) return;
    notifications_.await();
    for (const View& view : wanted_) {
      get(view);
      if (blocking_) complete(view);
    }
    if (!blocking_) NotifiedChannel::complete();
    wanted_.clear();
  }

 private:
  void expose(const View& view) {
    VOLLEY_MPI(MPI_Win_sync(place(view.send).window));
    notifications_.notify();
  }

  void get(const View& view) {
    const auto [window, offset] = place(view.send);
    window_ = window;
    switch (call_) {
      case GetCall::get:
        return VOLLEY_MPI(MPI_Get(view.recv, elements_, type_, peer_, offset, elements_, type_, window));
      case GetCall::get_accumulate:
        return VOLLEY_MPI(MPI_Get_accumulate(nullptr, 0, MPI_BYTE, view.recv, elements_, type_, peer_, offset,
                                             elements_, type_, MPI_NO_OP, window));
      case GetCall::fetch_and_op:
        return VOLLEY_MPI(MPI_Fetch_and_op(&zero_, &word_, MPI_INT64_T, peer_, offset, MPI_SUM, window));
      case GetCall::compare_and_swap:
        return VOLLEY_MPI(MPI_Compare_and_swap(&zero_, &zero_, &word_, MPI_INT64_T, peer_, offset, window));
    }
  }

  // A shorter message is the first bytes of the word.
  void complete(const View& view) {
    NotifiedChannel::complete();
    if (gets_words()) std::memcpy(view.recv, &word_, view.bytes);
  }

  const GetCall call_;
  const bool blocking_;
  const std::int64_t zero_ = 0;
  std::int64_t word_ = 0;
  View exposed_;
  std::vector<View> wanted_;
};

class Get final : public HostDriven<GetChannel> {
 public:
  using HostDriven::HostDriven;
  // An answer says that the message before it was fetched; nothing answers the last one.
  void round_trips(const View& view, std::uint64_t exchanges) override {
    HostDriven::round_trips(view, exchanges);
    if (leads_) channel_.acknowledge();
    else channel_.await_acknowledgement();
  }
  [[nodiscard]] std::string once_a_batch() const override { return "the notification that ends a batch"; }
  [[nodiscard]] std::string refuses(std::size_t bytes) const override {
    const bool too_long = channel_.gets_words() && bytes > sizeof(std::int64_t);
    return too_long ? "it carries messages of up to 8 B" : HostDriven::refuses(bytes);
  }
};

// MPI_Put between two calls of MPI_Win_fence. The fence is collective: it tells both ranks that the messages arrived,
// so that there are no notifications and no acknowledgements.
class FenceChannel final : public ExposingChannel {
 public:
  FenceChannel() : ExposingChannel(Epochs::fenced) {}

  // Begins a batch: its messages arrive where this one does. Between two batches the ranks write to their buffers,
  // which MPI forbids in an epoch in which the other rank puts there: the fence ends the epoch before.
  void begin(const View& view) {
    window_ = place(view.recv).window;
    fence();
  }

  void send(const View& view) {
    start_send(view);
    fence();
  }
  void recv(const View&) { fence(); }
  void start_send(const View& view) {
    const MPI_Aint offset = place(view.recv).offset;
    VOLLEY_MPI(MPI_Put(view.send, elements_, type_, peer_, offset, elements_, type_, window_));
  }
  void start_recv(const View&) {}
  void finish() { fence(); }
  void acknowledge() {}
  void await_acknowledgement() {}

 private:
  void fence() { VOLLEY_MPI(MPI_Win_fence(0, window_)); }

  MPI_Win window_ = MPI_WIN_NULL;
};

class PutFence final : public HostDriven<FenceChannel> {
 public:
  void round_trips(const View& view, std::uint64_t exchanges) override {
    channel_.begin(view);
    HostDriven::round_trips(view, exchanges);
  }
  void windows(const View& view, std::uint64_t count, const Window& window) override {
    channel_.begin(view);
    HostDriven::windows(view, count, window);
  }
  [[nodiscard]] std::string once_a_batch() const override { return "the fence that begins a batch"; }
};

// MPI_Put or MPI_Get of a rank that may access what the other one exposes: all messages of a window in one epoch.
class PscwChannel : public ExposingChannel {
 public:
  explicit PscwChannel(bool gets) : ExposingChannel(Epochs::posted), gets_(gets) {}

  void open(const RankGroup& pair, const Buffers& buffers) {
    ExposingChannel::open(pair, buffers);
    MPI_Group both = MPI_GROUP_NULL;
    MPI_Group other = MPI_GROUP_NULL;
    VOLLEY_MPI(MPI_Comm_group(comm_, &both));
    VOLLEY_MPI(MPI_Group_incl(both, 1, &peer_, &other));
    VOLLEY_MPI(MPI_Group_free(&both));
    other_ = Handle<MPI_Group, MPI_Group_free>(other);
  }

  void close() {
    other_ = {};
    ExposingChannel::close();
  }

  void start_send(const View& view) { gets_ ? expose(view.send) : accessed_.push_back(view); }
  void start_recv(const View& view) { gets_ ? accessed_.push_back(view) : expose(view.recv); }

  // A rank exposes before it accesses: MPI_Win_start may wait for the other one's MPI_Win_post.
  void finish() {
    if (!accessed_.empty()) {
      MPI_Win window = place(remote(accessed_[0])).window;
      VOLLEY_MPI(MPI_Win_start(other_.get(), 0, window));
      for (const View& view : accessed_) access(view, window);
      VOLLEY_MPI(MPI_Win_complete(window));
      accessed_.clear();
    }
    if (exposes_) VOLLEY_MPI(MPI_Win_wait(exposed_));
    exposes_ = false;
  }

 private:
  [[nodiscard]] std::byte* remote(const View& view) const { return gets_ ? view.send : view.recv; }

  void access(const View& view, MPI_Win window) const {
    const MPI_Aint offset = place(remote(view)).offset;
    if (gets_) VOLLEY_MPI(MPI_Get(view.recv, elements_, type_, peer_, offset, elements_, type_, window));
    else VOLLEY_MPI(MPI_Put(view.send, elements_, type_, peer_, offset, elements_, type_, window));
  }

  void expose(const std::byte* at) {
    if (std::exchange(exposes_, true)) return;  // another message of the window
    exposed_ = place(at).window;
    VOLLEY_MPI(MPI_Win_post(other_.get(), 0, exposed_));
  }

  const bool gets_;
  Handle<MPI_Group, MPI_Group_free> other_;  // the other rank
  std::vector<View> accessed_;
  MPI_Win exposed_ = MPI_WIN_NULL;
  bool exposes_ = false;
};

}  // namespace

std::unique_ptr<Transport> make_put() { return std::make_unique<HostDriven<PutChannel<false>>>(); }
std::unique_ptr<Transport> make_put_blocking() { return std::make_unique<HostDriven<PutChannel<true>>>(); }
std::unique_ptr<Transport> make_get() { return std::make_unique<Get>(GetCall::get, false); }
std::unique_ptr<Transport> make_get_blocking() { return std::make_unique<Get>(GetCall::get, true); }
std::unique_ptr<Transport> make_put_fence() { return std::make_unique<PutFence>(); }
std::unique_ptr<Transport> make_put_pscw() { return std::make_unique<HostDriven<AwaitingEach<PscwChannel>>>(false); }
std::unique_ptr<Transport> make_get_pscw() { return std::make_unique<HostDriven<AwaitingEach<PscwChannel>>>(true); }
std::unique_ptr<Transport> make_accumulate() { return std::make_unique<HostDriven<PutChannel<true, true>>>(); }
std::unique_ptr<Transport> make_get_accumulate() { return std::make_unique<Get>(GetCall::get_accumulate, true); }
std::unique_ptr<Transport> make_fetch_and_op() { return std::make_unique<Get>(GetCall::fetch_and_op, true); }
std::unique_ptr<Transport> make_compare_and_swap() { return std::make_unique<Get>(GetCall::compare_and_swap, true); }

}  // namespace volley
