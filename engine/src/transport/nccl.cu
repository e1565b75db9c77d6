// `nccl`: ncclSend and ncclRecv on a cuda_stream.
#include <optional>

#include "gpu/device_buffer.cuh"
#include "gpu/stream.cuh"
#include "mpi/text.hpp"
#include "transport/makers.hpp"
#include "transport/nccl_library.hpp"

namespace volley {

namespace {

// The two ranks' communicator, and what both uses of it need.
class NcclPair {
 public:
  [[nodiscard]] std::string unavailable(const Context& context, const RankGroup& pair) {
    const auto& first = context.ranks[static_cast<std::size_t>(pair.ranks[0])];
    const auto& second = context.ranks[static_cast<std::size_t>(pair.ranks[1])];
    if (same_device(first, second)) return "both ranks are on one device, and NCCL refuses that";
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
  void open(const RankGroup& pair) {
    peer_ = pair.peer();
    if (communicator_.get() != nullptr) return;
    nccl::UniqueId id{};
    if (pair.leads()) nccl_->check(nccl_->get_unique_id(&id), "ncclGetUniqueId");
    id = mpi::broadcast_value(id, 0, pair.control.get());
    communicator_ = nccl::NcclCommunicator(*nccl_, 2, id, pair.self);
  }

  void send(const std::byte* from, std::size_t bytes, cudaStream_t cuda_stream) {
    nccl_->check(nccl_->send(from, bytes, nccl::bytes_type, peer_, communicator_.get(), cuda_stream), "ncclSend");
  }
  void recv(std::byte* to, std::size_t bytes, cudaStream_t cuda_stream) {
    nccl_->check(nccl_->recv(to, bytes, nccl::bytes_type, peer_, communicator_.get(), cuda_stream), "ncclRecv");
  }
  void begin_group() { nccl_->check(nccl_->group_start(), "ncclGroupStart"); }
  void end_group() { nccl_->check(nccl_->group_end(), "ncclGroupEnd"); }
  void check_async() const { communicator_.check_async(); }

  [[nodiscard]] Facts facts() const { return nccl_ ? Facts{{"nccl_version", nccl_->version()}} : Facts{}; }

 private:
  // A communicator of this rank alone: a driver that is too old for this NCCL, or a machine where it finds no network
  // interface, is a reason here and would end the run in open().
  void try_alone() const {
    nccl::UniqueId id{};
    nccl_->check(nccl_->get_unique_id(&id), "ncclGetUniqueId");
    const nccl::NcclCommunicator alone(*nccl_, 1, id, 0);
  }

  // Declared in this order: the communicator is ended before its library's functions go.
  std::optional<nccl::Nccl> nccl_;
  nccl::NcclCommunicator communicator_;
  int peer_ = 0;
};

class NcclTransport final : public Transport {
 public:
  std::string unavailable(const Context& context, const RankGroup& pair) override {
    return nccl_pair_.unavailable(context, pair);
  }

  void open(const Context&, const RankGroup& pair, const Buffers&, std::size_t) override {
    leads_ = pair.leads();
    stream_ = gpu::Stream::make();
    signal_ = gpu::DeviceBuffer(2 * signal_bytes);
    nccl_pair_.open(pair);
  }

  void prepare(const View&) override {}

  void close() override {
    signal_ = {};
    stream_ = {};
  }

  // An answer is enqueued behind the message that it answers: the kernel that sends it starts when the one that
  // receives has ended, all blocks of it, and the whole message is in its place. The host looks once, at the end.
  void round_trips(const View& view, std::uint64_t exchanges) override {
    for (std::uint64_t i = 1; i <= exchanges; ++i) {
      const std::byte* const from = i < exchanges ? view.send : view.last().send;
      if (leads_) {
        send(from, view.bytes);
        recv(view.recv, view.bytes);
      } else {
        recv(view.recv, view.bytes);
        send(from, view.bytes);
      }
    }
    wait();
  }

  // A window is one group. Its acknowledgement, one word, is enqueued behind it, and so is the next window.
  void windows(const View& view, std::uint64_t count, const Window& window) override {
    const bool both = window.direction == Direction::bi;
    const bool sends = leads_ || both;
    const bool receives = !leads_ || both;
    for (std::uint64_t i = 1; i <= count; ++i) {
      const std::byte* const from = i < count ? view.send : view.last().send;
      nccl_pair_.begin_group();
      for (int message = 0; message < window.messages; ++message) {
        if (sends) send(from, view.bytes);
        if (receives) recv(view.recv, view.bytes);
      }
      nccl_pair_.end_group();
      nccl_pair_.begin_group();
      if (receives) send(signal_.data(), signal_bytes);
      if (sends) recv(signal_.data() + signal_bytes, signal_bytes);
      nccl_pair_.end_group();
    }
    wait();
  }

  [[nodiscard]] Facts facts() const override { return nccl_pair_.facts(); }

 private:
  static constexpr std::size_t signal_bytes = 8;
  // Asking NCCL costs more than asking the cuda_stream.
  static constexpr unsigned looks_between_checks = 1024;

  void send(const std::byte* from, std::size_t bytes) { nccl_pair_.send(from, bytes, stream_.get()); }
  void recv(std::byte* to, std::size_t bytes) { nccl_pair_.recv(to, bytes, stream_.get()); }

  // Until everything enqueued is complete. Polls, since a synchronising call would never return from a kernel whose
  // other side has failed; a hang without an error is the watchdog's.
  void wait() {
    for (unsigned looks = 1; stream_.busy(); ++looks) {
      if (looks % looks_between_checks == 0) nccl_pair_.check_async();
    }
  }

  NcclPair nccl_pair_;
  gpu::Stream stream_;
  gpu::DeviceBuffer signal_;
  bool leads_ = false;
};

// A halo each way is one group, behind the kernel that wrote the one and in front of the one that reads the other. With
// several neighbours the pairs' groups follow each other in the order of the links, which is the same round by round on
// all ranks (jacobi/halos.cpp): no two wait for each other.
class NcclHalo final : public HaloLink {
 public:
  std::string unavailable(const Context& context, const RankGroup& pair) override {
    return nccl_pair_.unavailable(context, pair);
  }
  void open(const Context&, const RankGroup& pair, const Buffers&, std::size_t, const View&) override {
    nccl_pair_.open(pair);
  }
  [[nodiscard]] bool host_driven() const override { return false; }
  void leave(const View& view, CUstream_st* cuda_stream) override {
    nccl_pair_.begin_group();
    nccl_pair_.send(view.send, view.bytes, cuda_stream);
    nccl_pair_.recv(view.recv, view.bytes, cuda_stream);
    nccl_pair_.end_group();
  }
  void start(const View&) override {}
  void progress() override { nccl_pair_.check_async(); }
  void finish() override {}
  void close() override {}

 private:
  NcclPair nccl_pair_;
};

}  // namespace

std::unique_ptr<Transport> make_nccl() { return std::make_unique<NcclTransport>(); }
std::unique_ptr<HaloLink> make_nccl_halo() { return std::make_unique<NcclHalo>(); }

}  // namespace volley
