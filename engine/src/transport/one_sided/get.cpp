// `host/get`, `aware/get`: a notification that the message is exposed, then MPI_Get and MPI_Win_flush by the receiver.
// `host/get/blocking`, `aware/get/blocking`: the same, and each message of a window is completed before the next one
// starts.
#include <vector>

#include "transport/host_driven.hpp"
#include "transport/one_sided/notified_channel.hpp"

namespace volley {

namespace {

class GetChannel : public one_sided::NotifiedChannel {
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
    VOLLEY_MPI(MPI_Get(view.recv, count_, type_, peer_, offset, count_, type_, window));
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

}  // namespace

std::unique_ptr<Transport> make_get() { return std::make_unique<Get>(false); }
std::unique_ptr<Transport> make_get_blocking() { return std::make_unique<Get>(true); }

}  // namespace volley
