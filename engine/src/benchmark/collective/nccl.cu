// `nccl`: NCCL's collectives on a stream, and for an all-to-all one group of ncclSend and ncclRecv, as nccl-tests does
// it. `nccl/allocated`: the same, with buffers from ncclMemAlloc.
#include <memory>

#include "benchmark/collective/transport.hpp"
#include "gpu/streams.cuh"
#include "transport/agreement.hpp"
#include "transport/nccl/library.cuh"

namespace volley {

namespace {

// The declarations repeat those of nccl.h, as in nccl/library.cuh; ncclSum is 0.
struct NcclFunctions : nccl::Nccl {
  using Stream = gpu::StreamHandle;
  using Reduce = nccl::Result(const void*, void*, std::size_t, int type, int reduction, nccl::Comm, Stream);
  nccl::Result (*broadcast)(const void*, void*, std::size_t, int type, int root, nccl::Comm,
                            Stream) = library.find("ncclBroadcast");
  Reduce* all_reduce = library.find("ncclAllReduce");
  Reduce* reduce_scatter = library.find("ncclReduceScatter");
  nccl::Result (*all_gather)(const void*, void*, std::size_t, int type, nccl::Comm,
                             Stream) = library.find("ncclAllGather");
};

class NcclCollectives final : public CollectiveTransport {
 public:
  explicit NcclCollectives(bool allocates) : allocates_(allocates) {}

  std::string unavailable(const Context& context, const RankGroup& group) override {
    for (int one = 0; one < group.size(); ++one) {
      for (int other = 0; other < one; ++other) {
        if (same_device(context.facts(group.rank(one)), context.facts(group.rank(other)))) {
          return "two ranks are on one device, and NCCL refuses that";
        }
      }
    }
    const std::string reason = nccl::load(nccl_);
    return reason.empty() ? nccl::try_alone(*nccl_) : reason;
  }

  std::unique_ptr<Memory> own_memory(const RankGroup&) override { return allocates_ ? nccl::make_memory() : nullptr; }

  void open(const RankGroup& group, const Buffers&) override {
    agreed_step(group, [&] { stream_ = gpu::Stream::make(); });
    communicator_ = nccl::communicator_of(group, *nccl_);
  }

  void close() override {
    communicator_ = {};
    stream_ = {};
  }

  void prepare_for(const Collective&, const View&) override {}

  // Enqueues all operations and waits once, at the end.
  void perform(const Collective& collective, const View& view, std::uint64_t count) override {
    for_each_operation(view, count, [&](const View& here) { enqueue(collective, here); });
    communicator_.wait_for(stream_);
  }

  [[nodiscard]] std::string once_a_batch() const override { return nccl::once_a_batch; }
  [[nodiscard]] Json facts() const override { return nccl::facts_of(nccl_.get()); }

 private:
  static constexpr int sum = 0;  // ncclSum

  void enqueue(const Collective& collective, const View& view) const {
    const int type = collective.element == Element::float32 ? 7 : 2;  // ncclFloat32, ncclInt32
    const std::size_t all = view.bytes / element_bytes;
    const std::size_t block = all / static_cast<std::size_t>(collective.ranks);
    const nccl::Comm comm = communicator_.get();
    const gpu::StreamHandle stream = stream_.get();
    switch (collective.operation) {
      case Operation::barrier: throw std::logic_error("NCCL has no barrier");
      case Operation::broadcast:
        nccl_->check(nccl_->broadcast(view.send, collective.self == Collective::root ? view.send : view.recv, all, type,
                                      Collective::root, comm, stream),
                     "ncclBroadcast");
        break;
      case Operation::allreduce:
        nccl_->check(nccl_->all_reduce(view.send, view.recv, all, type, sum, comm, stream), "ncclAllReduce");
        break;
      case Operation::reduce_scatter:
        nccl_->check(nccl_->reduce_scatter(view.send, view.recv, block, type, sum, comm, stream), "ncclReduceScatter");
        break;
      case Operation::allgather:
        nccl_->check(nccl_->all_gather(view.send, view.recv, block, type, comm, stream), "ncclAllGather");
        break;
      case Operation::all_to_all: all_to_all(collective, view, block * element_bytes); break;
    }
  }

  void all_to_all(const Collective& collective, const View& view, std::size_t block_bytes) const {
    nccl_->check(nccl_->group_start(), "ncclGroupStart");
    for (int other = 0; other < collective.ranks; ++other) {
      const std::size_t at = static_cast<std::size_t>(other) * block_bytes;
      nccl_->check(
          nccl_->send(view.send + at, block_bytes, nccl::bytes_type, other, communicator_.get(), stream_.get()),
          "ncclSend");
      nccl_->check(
          nccl_->recv(view.recv + at, block_bytes, nccl::bytes_type, other, communicator_.get(), stream_.get()),
          "ncclRecv");
    }
    nccl_->check(nccl_->group_end(), "ncclGroupEnd");
  }

  bool allocates_;
  // Declared in this order: the communicator is ended before its library's functions go.
  std::shared_ptr<const NcclFunctions> nccl_;
  nccl::NcclCommunicator communicator_;
  gpu::Stream stream_;
};

}  // namespace

std::unique_ptr<Transport> make_nccl_collectives() { return std::make_unique<NcclCollectives>(false); }
std::unique_ptr<Transport> make_nccl_allocated_collectives() { return std::make_unique<NcclCollectives>(true); }

}  // namespace volley
