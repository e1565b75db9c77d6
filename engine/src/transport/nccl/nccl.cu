// `nccl`: ncclSend and ncclRecv on a stream. `nccl/allocated`: the same, with buffers from ncclMemAlloc.
#include <memory>

#include "gpu/buffers.cuh"
#include "gpu/streams.cuh"
#include "transport/agreement.hpp"
#include "transport/nccl/library.cuh"
#include "transport/transport.hpp"

namespace volley {

namespace {

class NcclTransport final : public Transport {
 public:
  explicit NcclTransport(bool allocates) : allocates_(allocates) {}

  std::string unavailable(const Context& context, const RankGroup& pair) override {
    if (same_device(context.facts(pair.rank(0)), context.facts(pair.rank(1)))) {
      return "both ranks are on one device, and NCCL refuses that";
    }
    const std::string reason = nccl::load(nccl_);
    return reason.empty() ? nccl::try_alone(*nccl_) : reason;
  }

  std::unique_ptr<Memory> own_memory(const RankGroup&) override { return allocates_ ? nccl::make_memory() : nullptr; }

  // The communicator is kept when the buffers change: it does not depend on them, and takes long to make.
  void open(const RankGroup& pair, const Buffers&) override {
    leads_ = pair.leads();
    peer_ = pair.peer();
    agreed_step(pair, [&] {
      stream_ = gpu::Stream::make();
      signal_ = gpu::DeviceBuffer(2 * signal_bytes);
    });
    if (communicator_.get() == nullptr) communicator_ = nccl::communicator_of(pair, *nccl_);
  }

  void close() override {
    signal_ = {};
    stream_ = {};
  }

  // An answer is enqueued after the message that it answers: the kernel that sends starts when all blocks of the
  // kernel that receives have ended, and the whole message is in its place. The host waits once, at the end.
  void round_trips(const View& view, std::uint64_t exchanges) override {
    for (std::uint64_t i = 1; i <= exchanges; ++i) {
      const std::byte* const from = (i < exchanges ? view : view.last()).message(i - 1).send;
      std::byte* const to = view.message(i - 1).recv;
      if (leads_) {
        send(from, view.bytes);
        recv(to, view.bytes);
      } else {
        recv(to, view.bytes);
        send(from, view.bytes);
      }
    }
    communicator_.wait_for(stream_);
  }

  // A window is one group. Its acknowledgement, one word, is enqueued after it, and so is the next window.
  void windows(const View& view, std::uint64_t count, const Window& window) override {
    const bool sends = window.sends(leads_);
    const bool receives = window.receives(leads_);
    const auto messages = static_cast<std::uint64_t>(window.messages);
    for (std::uint64_t i = 1; i <= count; ++i) {
      const View each = (i < count ? view : view.last()).message((i - 1) * messages);
      begin_group();
      for (std::uint64_t n = 0; n < messages; ++n) {
        if (sends) send(each.message(n).send, view.bytes);
        if (receives) recv(each.message(n).recv, view.bytes);
      }
      end_group();
      begin_group();
      if (receives) send(signal_.data(), signal_bytes);
      if (sends) recv(signal_.data() + signal_bytes, signal_bytes);
      end_group();
    }
    communicator_.wait_for(stream_);
  }

  void open_halo(const View&) override {}
  [[nodiscard]] bool host_driven() const override { return false; }

  // Both halos of a pair are one group, after the kernel that writes and before the kernel that reads. With
  // several neighbours the groups follow each other in the order in which the pairs were made, round by round and the
  // same on all ranks: no two ranks wait for each other.
  void enqueue_send(const View& view, gpu::StreamHandle cuda_stream) override {
    begin_group();
    send(view.send, view.bytes, cuda_stream);
    recv(view.recv, view.bytes, cuda_stream);
    end_group();
  }
  void progress() override { communicator_.check_async(); }

  [[nodiscard]] std::string once_a_batch() const override { return nccl::once_a_batch; }
  [[nodiscard]] Json facts() const override { return nccl::facts_of(nccl_.get()); }

 private:
  static constexpr std::size_t signal_bytes = 8;

  void send(const std::byte* from, std::size_t bytes, gpu::StreamHandle cuda_stream) {
    nccl_->check(nccl_->send(from, bytes, nccl::bytes_type, peer_, communicator_.get(), cuda_stream), "ncclSend");
  }
  void recv(std::byte* to, std::size_t bytes, gpu::StreamHandle cuda_stream) {
    nccl_->check(nccl_->recv(to, bytes, nccl::bytes_type, peer_, communicator_.get(), cuda_stream), "ncclRecv");
  }
  void send(const std::byte* from, std::size_t bytes) { send(from, bytes, stream_.get()); }
  void recv(std::byte* to, std::size_t bytes) { recv(to, bytes, stream_.get()); }
  void begin_group() { nccl_->check(nccl_->group_start(), "ncclGroupStart"); }
  void end_group() { nccl_->check(nccl_->group_end(), "ncclGroupEnd"); }

  bool allocates_;
  // In this order, because the communicator must be destroyed before the library's functions.
  std::shared_ptr<const nccl::Nccl> nccl_;
  nccl::NcclCommunicator communicator_;
  gpu::Stream stream_;
  gpu::DeviceBuffer signal_;
  int peer_ = 0;
  bool leads_ = false;
};

}  // namespace

std::unique_ptr<Transport> make_nccl() { return std::make_unique<NcclTransport>(false); }
std::unique_ptr<Transport> make_nccl_allocated() { return std::make_unique<NcclTransport>(true); }

}  // namespace volley
