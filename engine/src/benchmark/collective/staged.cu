// `staged/pinned`: what a rank sends is copied to page-locked host memory, MPI's collective works there, and what it
// receives is copied to the device, one after the other.
#include "benchmark/collective/mpi_collectives.hpp"
#include "gpu/buffers.cuh"
#include "gpu/copy.cuh"
#include "transport/staged/copies.cuh"
#include "transport/staged/mpi_chunks.hpp"

namespace volley {

namespace {

class StagedCollectives final : public MpiCollectives {
 public:
  void open(const RankGroup& group, const Buffers& buffers) override {
    MpiCollectives::open(group, buffers);
    copies_.open();
  }
  void close() override {
    copies_.close();
    sent_ = {};
    received_ = {};
  }

  // What is sent and what is received.
  [[nodiscard]] std::uint64_t host_memory_bytes(std::uint64_t bytes, const std::optional<Window>&) const override {
    return 2 * bytes;
  }

  void prepare_for(const Collective& collective, const View& view) override {
    sent_.reserve(collective.sent_bytes(view.bytes));
    received_.reserve(collective.received_bytes(view.bytes));
  }

  void perform(const Collective& collective, const View& view, std::uint64_t count) override {
    const Call call = call_of(collective, view);
    const std::size_t sent = collective.sent_bytes(view.bytes);
    const std::size_t received = collective.received_bytes(view.bytes);
    for_each_operation(view, count, [&](const View& here) {
      if (sent > 0) copies_.copy_out(sent_.data(), here.send, sent);
      once(call, sent_.data(), received_.data());
      if (received > 0) copies_.copy_in(here.recv, received_.data(), received);
    });
  }

 private:
  AsyncCopies copies_;
  GrowingBuffer<gpu::PinnedBuffer> sent_;
  GrowingBuffer<gpu::PinnedBuffer> received_;
};

}  // namespace

std::unique_ptr<Transport> make_staged_collectives() { return std::make_unique<StagedCollectives>(); }

}  // namespace volley
