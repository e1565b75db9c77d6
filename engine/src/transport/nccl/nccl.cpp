// `nccl`: ncclSend and ncclRecv on a stream, and NCCL's collectives. Other ways to run the same:
//   allocated    buffers from ncclMemAlloc
//   registered   these, and registered with the communicator (ncclCommRegister)
//   graph        buffers from ncclMemAlloc; a batch is a CUDA graph, captured before it and launched once
#include <map>
#include <set>
#include <tuple>

#include "transport/collectives.hpp"
#include "transport/nccl/library.hpp"

namespace volley {
namespace {

// The declarations repeat those of nccl.h, as in nccl/library.hpp, and so do these numbers.
// Of the elements in their order: ncclFloat32, ncclInt32, ncclFloat16, ncclBfloat16 (since 2.10), ncclFloat8e4m3
// (2.24).
constexpr std::array<int, element_traits.size()> types{7, 2, 6, 9, 10};
// ncclSum, ncclMax
constexpr std::array<int, 2> reductions{0, 2};

struct NcclFunctions : nccl::Nccl {
  using Stream = gpu::StreamHandle;
  using Reduce = nccl::Result(const void*, void*, std::size_t, int type, int reduction, nccl::Comm, Stream);
  nccl::Result (*broadcast)(const void*, void*, std::size_t, int type, int root, nccl::Comm,
                            Stream) = library.find("ncclBroadcast");
  nccl::Result (*reduce)(const void*, void*, std::size_t, int type, int reduction, int root, nccl::Comm,
                         Stream) = library.find("ncclReduce");
  Reduce* all_reduce = library.find("ncclAllReduce");
  Reduce* reduce_scatter = library.find("ncclReduceScatter");
  nccl::Result (*all_gather)(const void*, void*, std::size_t, int type, nccl::Comm,
                             Stream) = library.find("ncclAllGather");
  // Since NCCL 2.19.
  nccl::Result (*enroll)(nccl::Comm, void*, std::size_t, void** handle) = library.find_optional("ncclCommRegister");
  nccl::Result (*withdraw)(nccl::Comm, void* handle) = library.find_optional("ncclCommDeregister");
};

struct Way {
  bool allocates = false;
  bool registers = false;
};

class NcclTransport : public Transport, public Messages, public HaloExchange, public Collectives, public Stamps {
 public:
  explicit NcclTransport(const Way& way) : way_(way) {}

  std::string unavailable(const Context& context, const RankGroup& group) override {
    std::set<int> gpus;
    for (const int rank : group.ranks) {
      if (!gpus.insert(context.gpu(rank)).second) return "two ranks are on one device, which NCCL does not allow";
    }
    const std::string reason = nccl::load(nccl_);
    if (!reason.empty()) return reason;
    if (way_.registers && nccl_->enroll == nullptr) {
      return "NCCL " + nccl::version_of(nccl_->version_code()) + " has no ncclCommRegister";
    }
    return nccl::try_alone(*nccl_);
  }

  std::unique_ptr<Memory> own_memory(const RankGroup&) override {
    return way_.allocates ? nccl::make_memory(nccl_) : nullptr;
  }

  // The communicator is kept when the buffers change: it does not depend on them, and takes long to make.
  void open(const RankGroup& group, const Buffers& buffers) override {
    leads_ = group.leads();
    peer_ = group.peer();
    agreed_step(group, [&] {
      stream_ = gpu::Stream::make();
      signal_ = gpu::DeviceBuffer(2 * signal_bytes);
    });
    if (communicator_.get() == nullptr) communicator_ = nccl::communicator_of(group, *nccl_);
    if (way_.registers)
      agreed_step(group, [&] {
        for (std::byte* const buffer : {buffers.send, buffers.recv}) {
          void*& handle = registered_.emplace_back();
          nccl_->check(nccl_->enroll(communicator_.get(), buffer, buffers.capacity, &handle), "ncclCommRegister");
        }
      });
  }

  void close() override {
    for (void* const handle : registered_)
      nccl_->check(nccl_->withdraw(communicator_.get(), handle), "ncclCommDeregister");
    registered_.clear();
    ends_.clear();
    signal_ = {};
    stream_ = {};
  }

  // The host enqueues all exchanges or operations of a batch.
  [[nodiscard]] std::string once_a_batch() const override {
    return "the launch of NCCL's kernels and the wait for their end";
  }
  // Events in the stream, each after an exchange or an operation: their times have a resolution of about 0.5 µs.
  [[nodiscard]] Stamps* stamps() override { return this; }
  void take() override {
    while (leads_ && ends_.size() < most_counts) ends_.push_back(gpu::Event::timed());
  }
  [[nodiscard]] std::vector<double> singles_s() override {
    std::vector<double> singles_s;
    for (std::size_t i = 1; i + 1 < stamped_; ++i) singles_s.push_back(ends_[i].seconds_since(ends_[i - 1]));
    return singles_s;
  }
  [[nodiscard]] Json facts() const override { return nccl::facts_of(nccl_.get()); }
  [[nodiscard]] Driver* messages() override { return this; }
  [[nodiscard]] HaloExchange* halo() override { return this; }
  [[nodiscard]] Collectives* collectives() override { return this; }

  // An answer is enqueued after the message that it answers: the kernel that sends starts when all blocks of the
  // kernel that receives have ended, and the whole message is in its place. The host waits once, at the end.
  void round_trips(const View& view, std::uint64_t exchanges) override {
    begin_stamps(exchanges);
    for (std::uint64_t i = 1; i <= exchanges; ++i) {
      const std::byte* const from = (i < exchanges ? view : view.last()).message(i - 1).send;
      std::byte* const to = view.message(i - 1).recv;
      if (leads_) {
        send(from, view.bytes, peer_, stream_.get());
        recv(to, view.bytes, peer_, stream_.get());
        stamp(i);
      } else {
        recv(to, view.bytes, peer_, stream_.get());
        send(from, view.bytes, peer_, stream_.get());
      }
    }
    await();
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
        if (sends) send(each.message(n).send, view.bytes, peer_, stream_.get());
        if (receives) recv(each.message(n).recv, view.bytes, peer_, stream_.get());
      }
      end_group();
      if (!window.acknowledged(i, count)) continue;
      begin_group();
      if (receives) send(signal_.data(), signal_bytes, peer_, stream_.get());
      if (sends) recv(signal_.data() + signal_bytes, signal_bytes, peer_, stream_.get());
      end_group();
    }
    await();
  }

  [[nodiscard]] bool host_driven() const override { return false; }

  // Both halos of a pair are one group, after the kernel that writes and before the kernel that reads. With
  // several neighbours the groups follow each other in the order in which the pairs were made, round by round and the
  // same on all ranks: no two ranks wait for each other.
  void enqueue_send(const View& view, gpu::StreamHandle cuda_stream) override {
    begin_group();
    send(view.send, view.bytes, peer_, cuda_stream);
    recv(view.recv, view.bytes, peer_, cuda_stream);
    end_group();
  }
  void progress() override { communicator_.check_async(); }

  // Enqueues all operations and waits once, at the end.
  void perform(const Collective& collective, const View& view, std::uint64_t count) override {
    begin_stamps(count);
    std::uint64_t operation = 0;
    for_each_operation(view, count, [&](const View& here) {
      enqueue(collective, here);
      stamp(++operation);
    });
    await();
  }

 protected:
  // What the batch enqueues, as a graph.
  template <class Batch>
  [[nodiscard]] gpu::Graph captured(const Batch& batch) {
    capturing_ = true;
    gpu::Graph graph = gpu::Graph::captured(stream_, batch);
    capturing_ = false;
    return graph;
  }
  void launch(const gpu::Graph& graph) {
    graph.launch(stream_);
    await();
  }

 private:
  // Until all that was enqueued is complete; nothing runs of what is captured.
  void await() {
    if (!capturing_) communicator_.wait_for(stream_);
  }
  static constexpr std::size_t signal_bytes = 8;

  void send(const std::byte* from, std::size_t bytes, int to, gpu::StreamHandle cuda_stream) const {
    nccl_->check(nccl_->send(from, bytes, nccl::bytes_type, to, communicator_.get(), cuda_stream), "ncclSend");
  }
  void recv(std::byte* to, std::size_t bytes, int from, gpu::StreamHandle cuda_stream) const {
    nccl_->check(nccl_->recv(to, bytes, nccl::bytes_type, from, communicator_.get(), cuda_stream), "ncclRecv");
  }
  void begin_stamps(std::uint64_t counts) { stamped_ = counts <= ends_.size() ? counts : 0; }
  // Count number `i` has been enqueued.
  void stamp(std::uint64_t i) const {
    if (i <= stamped_) ends_[i - 1].record(stream_);
  }
  void begin_group() const { nccl_->check(nccl_->group_start(), "ncclGroupStart"); }
  void end_group() const { nccl_->check(nccl_->group_end(), "ncclGroupEnd"); }

  void enqueue(const Collective& collective, const View& view) const {
    const int type = types[static_cast<std::size_t>(collective.element)];
    const int reduction = reductions[static_cast<std::size_t>(collective.reduction)];
    const std::size_t bytes = traits_of(collective.element).bits / 8;
    const std::size_t all = view.bytes / bytes;
    const std::size_t block = collective.block(view.bytes) / bytes;
    const std::byte* const from = collective.sends_in_place() ? view.recv + collective.place(view.bytes) : view.send;
    const nccl::Comm comm = communicator_.get();
    const gpu::StreamHandle stream = stream_.get();
    switch (collective.operation) {
      case Operation::barrier:
      case Operation::scan: throw std::logic_error("NCCL has no such operation");
      case Operation::broadcast:
        nccl_->check(nccl_->broadcast(view.send, collective.self == collective.root ? view.send : view.recv, all, type,
                                      collective.root, comm, stream),
                     "ncclBroadcast");
        break;
      case Operation::reduce:
        nccl_->check(nccl_->reduce(from, view.recv, all, type, reduction, collective.root, comm, stream), "ncclReduce");
        break;
      case Operation::allreduce:
        nccl_->check(nccl_->all_reduce(from, view.recv, all, type, reduction, comm, stream), "ncclAllReduce");
        break;
      case Operation::reduce_scatter:
        nccl_->check(nccl_->reduce_scatter(view.send, view.recv, block, type, reduction, comm, stream),
                     "ncclReduceScatter");
        break;
      case Operation::allgather:
        nccl_->check(nccl_->all_gather(from, view.recv, block, type, comm, stream), "ncclAllGather");
        break;
      default: send_blocks(collective, view, from);
    }
  }

  // As nccl-tests does it: one group of ncclSend and ncclRecv, with the blocks that this rank has for the others and
  // they for it.
  void send_blocks(const Collective& collective, const View& view, const std::byte* from) const {
    const auto& traits = collective.traits();
    const auto sends = [&](int rank) { return rank == collective.root ? traits.sent_by_root : traits.sent_by_others; };
    const auto receives = [&](int rank) {
      return rank == collective.root ? traits.received_by_root : traits.received_by_others;
    };
    const std::size_t mine = collective.block(view.bytes);
    begin_group();
    for (int other = 0; other < collective.ranks; ++other) {
      const std::size_t others = collective.block(view.bytes, other);
      const std::size_t start = collective.block_start(view.bytes, other);
      // to a rank that gathers goes this rank's block; one that has all sends each rank its own
      if (sends(collective.self) == DataShare::whole) send(view.send + start, others, other, stream_.get());
      else if (receives(other) == DataShare::whole) send(from, mine, other, stream_.get());
      if (receives(collective.self) == DataShare::whole) recv(view.recv + start, others, other, stream_.get());
      else if (receives(collective.self) == DataShare::block_for_each)
        recv(view.recv + static_cast<std::size_t>(other) * mine, mine, other, stream_.get());
      else if (receives(collective.self) == DataShare::block && other == collective.root)
        recv(view.recv, mine, other, stream_.get());
    }
    end_group();
  }

  const Way way_;
  bool leads_ = false;
  bool capturing_ = false;
  int peer_ = 0;  // of messages and halos
  // In this order, because the communicator must be destroyed before the library's functions.
  std::shared_ptr<const NcclFunctions> nccl_;
  nccl::NcclCommunicator communicator_;
  std::vector<void*> registered_;  // handles of buffers
  gpu::Stream stream_;
  gpu::DeviceBuffer signal_;      // of windows
  std::vector<gpu::Event> ends_;  // of exchanges or operations; empty: no stamps are taken
  std::uint64_t stamped_ = 0;     // counts of the last batch with stamps
};

// A driver whose batches are captured before they are timed.
class NcclGraph final : public NcclTransport {
 public:
  NcclGraph() : NcclTransport({.allocates = true}) {}
  // Events and halos are not captured.
  [[nodiscard]] Stamps* stamps() override { return nullptr; }
  [[nodiscard]] HaloExchange* halo() override { return nullptr; }
  [[nodiscard]] bool restarts() const override { return true; }
  [[nodiscard]] std::string keeps_place() const override { return "a CUDA graph is captured for one place"; }
  [[nodiscard]] Driver* messages() override { return &messages_; }
  [[nodiscard]] std::unique_ptr<Driver> driver(const Collective& collective) override {
    return std::make_unique<Captured>(*this, NcclTransport::driver(collective));
  }

 private:
  class Captured final : public Driver {
   public:
    Captured(NcclGraph& nccl, Driver& batch) : nccl_(nccl), batch_(batch) {}
    Captured(NcclGraph& nccl, std::unique_ptr<Driver> batch) : nccl_(nccl), owned_(std::move(batch)), batch_(*owned_) {}
    void prepare(const View& view, const std::optional<Window>& window) override { batch_.prepare(view, window); }
    // Capturing takes so long that the other rank would wait in its batch: a visit has few places, and the batch before
    // its samples has captured them. In the pass of different messages nothing is timed.
    void arm(const View& view, std::uint64_t count, const std::optional<Window>& window) override {
      if (!view.apart()) static_cast<void>(graph_of(view, count, window));
    }
    void run(const View& view, std::uint64_t count, const std::optional<Window>& window) override {
      if (count > 0) nccl_.launch(graph_of(view, count, window));
    }
    void rest() override { graphs_.clear(); }

   private:
    using Batch = std::tuple<std::byte*, std::byte*, std::byte*, std::size_t, std::uint64_t, int>;

    const gpu::Graph& graph_of(const View& view, std::uint64_t count, const std::optional<Window>& window) {
      auto& graph =
          graphs_[{view.send, view.recv, view.last().send, view.stride, count, window ? window->messages : 0}];
      if (graph.empty()) graph = nccl_.captured([&] { batch_.run(view, count, window); });
      return graph;
    }

    NcclGraph& nccl_;
    std::unique_ptr<Driver> owned_;
    Driver& batch_;
    std::map<Batch, gpu::Graph> graphs_;
  };

  Captured messages_{*this, *static_cast<Driver*>(this)};
};

}  // namespace

std::unique_ptr<Transport> make_nccl() { return std::make_unique<NcclTransport>(Way{}); }
std::unique_ptr<Transport> make_nccl_allocated() { return std::make_unique<NcclTransport>(Way{.allocates = true}); }
std::unique_ptr<Transport> make_nccl_registered() {
  return std::make_unique<NcclTransport>(Way{.allocates = true, .registers = true});
}
std::unique_ptr<Transport> make_nccl_graph() { return std::make_unique<NcclGraph>(); }

}  // namespace volley
