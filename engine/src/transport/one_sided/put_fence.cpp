// `host/put/fence`, `aware/put/fence`: MPI_Put between two calls of MPI_Win_fence. The fence is collective: it tells
// both ranks that the messages arrived, so that there are no notifications and no acknowledgements.
#include "transport/host_driven.hpp"
#include "transport/mpi_channel.hpp"
#include "transport/one_sided/exposed_buffers.hpp"

namespace volley {

namespace {

class FenceChannel : public MpiChannel {
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
    VOLLEY_MPI(MPI_Put(view.send, count_, type_, peer_, offset, count_, type_, window_));
  }
  void start_recv(const View&) {}
  void finish() { fence(); }
  void acknowledge() {}
  void await_acknowledgement() {}

 private:
  void fence() { VOLLEY_MPI(MPI_Win_fence(0, window_)); }

  one_sided::ExposedBuffers buffers_{one_sided::Epoch::fenced};
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

std::unique_ptr<Transport> make_put_fence() { return std::make_unique<PutFence>(); }

}  // namespace volley
