// One-sided MPI, on host memory (`host/...`) and on device pointers (`aware/...`):
//   put            MPI_Put, MPI_Win_flush, a notification
//   put/blocking   the same, and each message of a window is completed before the next one starts
//   put/fence      MPI_Put between two calls of MPI_Win_fence
//   get            a notification that the message is exposed, then MPI_Get and MPI_Win_flush by the receiver
//   get/blocking   the same, and each message of a window is completed before the next one starts
#include <atomic>

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

// The message buffers of a pair as windows. Their calls are `fenced` by MPI_Win_fence, or made between MPI_Win_lock_all
// and MPI_Win_unlock_all, from open to close, and completed by MPI_Win_flush.
class ExposedBuffers {
 public:
  explicit ExposedBuffers(bool fenced) : fenced_(fenced) {}

  // Collective over the pair.
  void open(const RankGroup& pair, const Buffers& buffers) {
    buffers_ = buffers;
    const std::size_t bytes = buffers.capacity + fill_room_bytes;
    send_ = agreed_window(pair, [&] { return RmaWindow::over(buffers.send, bytes, pair.data.get()); });
    recv_ = agreed_window(pair, [&] { return RmaWindow::over(buffers.recv, bytes, pair.data.get()); });
    if (fenced_) return;
    agreed_step(pair, [&] {
      for (RmaWindow* window : {&send_, &recv_}) window->lock_all();
    });
  }

  // Collective over the pair; also after an open() that failed.
  void close() {
    for (RmaWindow* window : {&send_, &recv_}) {
      if (!*window) continue;
      if (fenced_) VOLLEY_MPI(MPI_Win_fence(MPI_MODE_NOSUCCEED, window->get()));
      window->unlock_all();
      *window = RmaWindow();
    }
  }

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
  bool fenced_;
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
  }

  // Collective over the pair; also after an open() that failed.
  void close() {
    window_.unlock_all();
    window_ = RmaWindow();
  }

  void notify() {
    ++sent_;
    VOLLEY_MPI(MPI_Put(&sent_, 1, MPI_BYTE, peer_, 0, 1, MPI_BYTE, window_.get()));
    VOLLEY_MPI(MPI_Win_flush(peer_, window_.get()));
  }

  // Waits for the next notification. An MPI may move the other rank's data only during calls of this rank: MPI_Iprobe
  // is one, MPI_Win_sync need not be.
  void await() {
    ++awaited_;
    while (missing()) {
      int arrived = 0;
      VOLLEY_MPI(MPI_Win_sync(window_.get()));
      VOLLEY_MPI(MPI_Iprobe(peer_, MPI_ANY_TAG, comm_, &arrived, MPI_STATUS_IGNORE));
    }
  }

 private:
  static constexpr std::size_t line_bytes = 64;

  // The other rank may be ahead by a few notifications, and the count begins again after 255.
  [[nodiscard]] bool missing() const {
    const std::uint8_t received = std::atomic_ref(*received_).load(std::memory_order_acquire);
    return static_cast<std::int8_t>(received - awaited_) < 0;
  }

  MPI_Comm comm_ = MPI_COMM_NULL;
  int peer_ = 0;
  RmaWindow window_;
  std::uint8_t* received_ = nullptr;
  std::uint8_t sent_ = 0;
  std::uint8_t awaited_ = 0;
};

// Receivers are told of messages by notifications.
class NotifiedChannel : public MpiChannel {
 public:
  void open(const RankGroup& pair, const Buffers& buffers) {
    MpiChannel::open(pair, buffers);
    buffers_.open(pair, buffers);
    notifications_.open(pair);
  }

  void close() {
    notifications_.close();
    buffers_.close();
    MpiChannel::close();
  }

  void acknowledge() { notifications_.notify(); }
  void await_acknowledgement() { notifications_.await(); }

 protected:
  // What was put is in the other rank's memory, what was fetched in this rank's.
  void complete() { VOLLEY_MPI(MPI_Win_flush(peer_, window_)); }

  ExposedBuffers buffers_{false};
  Notifications notifications_;
  MPI_Win window_ = MPI_WIN_NULL;  // of the latest message
  bool sending_ = false;
};

// MPI_Put into the receiver's buffer, and a notification when MPI_Win_flush has completed the messages there.
template <bool blocking>
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
    const auto [window, offset] = buffers_.place(view.recv);
    VOLLEY_MPI(MPI_Put(view.send, elements_, type_, peer_, offset, elements_, type_, window));
    window_ = window;
  }

  // What was put into this rank's window is in its memory.
  void see(const View& view) { VOLLEY_MPI(MPI_Win_sync(buffers_.place(view.recv).window)); }

  View arriving_;
  bool receiving_ = false;
};

class GetChannel : public NotifiedChannel {
 public:
  explicit GetChannel(bool blocking) : blocking_(blocking) {}

  void send(const View& view) { expose(view); }

  void recv(const View& view) {
    notifications_.await();
    get(view);
    complete();
  }

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
      if (blocking_) complete();
    }
    complete();
    wanted_.clear();
  }

 private:
  void expose(const View& view) {
    VOLLEY_MPI(MPI_Win_sync(buffers_.place(view.send).window));
    notifications_.notify();
  }

  void get(const View& view) {
    const auto [window, offset] = buffers_.place(view.send);
    VOLLEY_MPI(MPI_Get(view.recv, elements_, type_, peer_, offset, elements_, type_, window));
    window_ = window;
  }

  bool blocking_;
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
};

// MPI_Put between two calls of MPI_Win_fence. The fence is collective: it tells both ranks that the messages arrived,
// so that there are no notifications and no acknowledgements.
class FenceChannel final : public MpiChannel {
 public:
  void open(const RankGroup& pair, const Buffers& buffers) {
    MpiChannel::open(pair, buffers);
    buffers_.open(pair, buffers);
  }

  void close() {
    buffers_.close();
    MpiChannel::close();
  }

  // Begins a batch: its messages arrive where this one does. Between two batches the ranks write to their buffers,
  // which MPI forbids in an epoch in which the other rank puts there: the fence ends the epoch before.
  void begin(const View& view) {
    window_ = buffers_.place(view.recv).window;
    fence();
  }

  void send(const View& view) {
    start_send(view);
    fence();
  }
  void recv(const View&) { fence(); }
  void start_send(const View& view) {
    const MPI_Aint offset = buffers_.place(view.recv).offset;
    VOLLEY_MPI(MPI_Put(view.send, elements_, type_, peer_, offset, elements_, type_, window_));
  }
  void start_recv(const View&) {}
  void finish() { fence(); }
  void acknowledge() {}
  void await_acknowledgement() {}

 private:
  void fence() { VOLLEY_MPI(MPI_Win_fence(0, window_)); }

  ExposedBuffers buffers_{true};
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

}  // namespace

std::unique_ptr<Transport> make_put() { return std::make_unique<HostDriven<PutChannel<false>>>(); }
std::unique_ptr<Transport> make_put_blocking() { return std::make_unique<HostDriven<PutChannel<true>>>(); }
std::unique_ptr<Transport> make_get() { return std::make_unique<Get>(false); }
std::unique_ptr<Transport> make_get_blocking() { return std::make_unique<Get>(true); }
std::unique_ptr<Transport> make_put_fence() { return std::make_unique<PutFence>(); }

}  // namespace volley
