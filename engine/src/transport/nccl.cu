// `nccl`: ncclSend and ncclRecv on a stream.
#include <optional>

#include "../handles/device_buffer.cuh"
#include "../handles/stream.cuh"
#include "../wire.hpp"
#include "makers.hpp"
#include "nccl_library.hpp"

namespace volley {

namespace {

class NcclTransport final : public Transport {
 public:
  std::string unavailable(const Context& context, const Pair& pair) override {
    const auto& first = context.ranks[static_cast<std::size_t>(pair.ranks[0])];
    const auto& second = context.ranks[static_cast<std::size_t>(pair.ranks[1])];
    if (first.host == second.host && first.device->uuid == second.device->uuid) {
      return "both ranks are on one device, and NCCL refuses that";
    }
    try {
      nccl_.emplace();
    } catch (const std::runtime_error& problem) {
      return std::string("no NCCL: ") + problem.what() + "; the wheel nvidia-nccl-cu13 brings one";
    }
    try {
      try_alone();
    } catch (const std::runtime_error& problem) {
      return problem.what();
    }
    return {};
  }

  // The communicator stays from one set of buffers to the next: it knows none of them, and takes long to make.
  void open(const Context&, const Pair& pair, const Buffers&, std::size_t) override {
    leads_ = pair.leads();
    peer_ = pair.peer;
    stream_ = gpu::Stream::make();
    signal_ = gpu::DeviceBuffer(2 * signal_bytes);
    if (communicator_.get() != nullptr) return;
    nccl::UniqueId id{};
    if (leads_) nccl_->check(nccl_->get_unique_id(&id), "ncclGetUniqueId");
    id = wire::broadcast_value(id, 0, pair.control.get());
    communicator_ = nccl::Communicator(*nccl_, 2, id, pair.self);
  }

  void prepare(const View&) override {}

  void close() override {
    signal_ = {};
    stream_ = {};
  }

  // An answer is enqueued behind the message that it answers: the kernel that sends it starts when the one that
  // receives has ended, all blocks of it, and the whole message is in its place. The host looks once, at the end.
  void pingpong(const View& view, std::uint64_t exchanges) override {
    for (std::uint64_t i = 0; i < exchanges; ++i) {
      if (leads_) {
        send(view.send, view.bytes);
        recv(view.recv, view.bytes);
      } else {
        recv(view.recv, view.bytes);
        send(view.send, view.bytes);
      }
    }
    wait();
  }

  // A window is one group. Its acknowledgement, one word, is enqueued behind it, and so is the next window.
  void stream(const View& view, std::uint64_t windows, const Stream& stream) override {
    const bool both = stream.direction == Direction::bi;
    const bool sends = leads_ || both;
    const bool receives = !leads_ || both;
    for (std::uint64_t i = 0; i < windows; ++i) {
      begin_group();
      for (int message = 0; message < stream.window; ++message) {
        if (sends) send(view.send, view.bytes);
        if (receives) recv(view.recv, view.bytes);
      }
      end_group();
      begin_group();
      if (receives) send(signal_.data(), signal_bytes);
      if (sends) recv(signal_.data() + signal_bytes, signal_bytes);
      end_group();
    }
    wait();
  }

  [[nodiscard]] Facts facts() const override { return nccl_ ? Facts{{"nccl_version", nccl_->version()}} : Facts{}; }

 private:
  static constexpr std::size_t signal_bytes = 8;
  // Asking NCCL costs more than asking the stream.
  static constexpr unsigned looks_between_checks = 1024;

  // A communicator of this rank alone: a driver that is too old for this NCCL, or a machine where it finds no network
  // interface, is a reason here and would end the run in open().
  void try_alone() const {
    nccl::UniqueId id{};
    nccl_->check(nccl_->get_unique_id(&id), "ncclGetUniqueId");
    const nccl::Communicator alone(*nccl_, 1, id, 0);
  }

  void send(const std::byte* from, std::size_t bytes) {
    nccl_->check(nccl_->send(from, bytes, nccl::bytes_type, peer_, communicator_.get(), stream_.get()), "ncclSend");
  }
  void recv(std::byte* to, std::size_t bytes) {
    nccl_->check(nccl_->recv(to, bytes, nccl::bytes_type, peer_, communicator_.get(), stream_.get()), "ncclRecv");
  }
  void begin_group() { nccl_->check(nccl_->group_start(), "ncclGroupStart"); }
  void end_group() { nccl_->check(nccl_->group_end(), "ncclGroupEnd"); }

  // Until everything enqueued is complete. Polls, since a synchronising call would never return from a kernel whose
  // other side has failed; a hang without an error is the watchdog's.
  void wait() {
    for (unsigned looks = 1; stream_.busy(); ++looks) {
      if (looks % looks_between_checks == 0) communicator_.check_async();
    }
  }

  // Declared in this order: the communicator is ended before its library's functions go.
  std::optional<nccl::Nccl> nccl_;
  nccl::Communicator communicator_;
  gpu::Stream stream_;
  gpu::DeviceBuffer signal_;
  bool leads_ = false;
  int peer_ = 0;
};

}  // namespace

std::unique_ptr<Transport> make_nccl() { return std::make_unique<NcclTransport>(); }

}  // namespace volley
