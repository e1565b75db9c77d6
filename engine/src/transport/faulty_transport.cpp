// A fault on purpose around any transport: its messages and collectives (faults/faults.hpp), halos, opening.
#include <algorithm>
#include <new>

#include "group/agreement.hpp"
#include "transport/collectives.hpp"
#include "transport/registry.hpp"

namespace volley {
namespace {

// What a rank of the group does by `hang` and `delay`.
FaultyDriver::Rank faulty_rank(const RankGroup& group) {
  return {.stops = !group.leads(), .slow = group.size() == 2 && std::ranges::max(group.ranks) == 1};
}

class FaultyTransport final : public Transport, public HaloExchange, public Collectives {
 public:
  FaultyTransport(std::unique_ptr<Transport> transport, Fault fault, MemoryKind kind)
      : transport_(std::move(transport)), fault_(fault), kind_(kind) {}

  std::string unavailable(const Context& context, const RankGroup& group) override {
    return transport_->unavailable(context, group);
  }
  std::unique_ptr<Memory> own_memory(const RankGroup& group) override { return transport_->own_memory(group); }
  void limit_waits(double seconds) override { transport_->limit_waits(seconds); }
  void open(const RankGroup& group, const Buffers& buffers) override {
    agreed_step(group, [&] {
      if (fault_ == Fault::unopened && !group.leads()) throw std::bad_alloc();
    });
    memory_ = volley::make_memory(kind_);
    rank_ = faulty_rank(group);
    transport_->open(group, buffers);
    if (Driver* const messages = transport_->messages()) {
      messages_ = std::make_unique<FaultyDriver>(*messages, fault_, memory_.get(), rank_);
    }
  }
  void close() override {
    messages_.reset();
    transport_->close();
  }
  Driver* messages() override { return messages_.get(); }
  HaloExchange* halo() override { return transport_->halo() == nullptr ? nullptr : this; }
  Collectives* collectives() override { return transport_->collectives() == nullptr ? nullptr : this; }
  std::size_t max_message_bytes() const override { return transport_->max_message_bytes(); }
  bool carries_empty_messages() const override { return transport_->carries_empty_messages(); }
  std::uint64_t host_memory_bytes(std::uint64_t bytes, const std::optional<Window>& window) const override {
    return transport_->host_memory_bytes(bytes, window);
  }
  std::string once_a_batch() const override { return transport_->once_a_batch(); }
  Json facts() const override { return transport_->facts(); }

  void open_halo(const View& view) override { transport_->halo()->open_halo(view); }
  bool host_driven() const override { return transport_->halo()->host_driven(); }
  bool staged_through_host() const override { return transport_->halo()->staged_through_host(); }
  void enqueue_send(const View& view, gpu::StreamHandle cuda_stream) override {
    transport_->halo()->enqueue_send(view, cuda_stream);
  }
  void start(const View& view) override {
    halo_ = view;
    transport_->halo()->start(view);
  }
  void progress() override { transport_->halo()->progress(); }
  void finish() override {
    transport_->halo()->finish();
    if (kind_ == MemoryKind::host) change_halo(halo_);
  }
  void enqueue_recv(const View& view, gpu::StreamHandle cuda_stream) override {
    transport_->halo()->enqueue_recv(view, cuda_stream);
    if (kind_ != MemoryKind::device) return;
    memory_->synchronize();  // the halo has arrived
    change_halo(view);
  }

  std::uint64_t collective_memory_bytes(std::uint64_t bytes) const override {
    return transport_->collectives()->collective_memory_bytes(bytes);
  }
  std::unique_ptr<Driver> driver(const Collective& collective) override {
    const auto received_bytes = [collective](std::size_t bytes) { return collective.received_bytes(bytes); };
    auto made = transport_->collectives()->driver(collective);
    Driver& right = *made;
    return std::make_unique<FaultyDriver>(right, fault_, memory_.get(), rank_, received_bytes, std::move(made));
  }

 private:
  // The first halo at each of the two places arrives as it was sent. The NaNs belong to the fourth iteration.
  void change_halo(const View& halo) {
    const std::uint64_t number = halos_++;
    if (fault_ == Fault::flip && number >= 2) flip_a_bit(*memory_, halo.recv, halo.bytes, number);
    if (fault_ == Fault::echo) memory_->copy(halo.recv, halo.send, halo.bytes);
    if (fault_ != Fault::nan || number != 4) return;
    const std::vector<std::byte> ones(halo.bytes, std::byte{0xFF});
    memory_->copy(halo.recv, ones.data(), halo.bytes);
  }

  std::unique_ptr<Transport> transport_;
  const Fault fault_;
  const MemoryKind kind_;
  std::unique_ptr<Memory> memory_;
  FaultyDriver::Rank rank_;
  std::unique_ptr<FaultyDriver> messages_;
  View halo_;
  std::uint64_t halos_ = 0;  // that have arrived
};

}  // namespace

std::unique_ptr<Transport> with_fault(std::unique_ptr<Transport> transport, Fault fault, MemoryKind memory) {
  return std::make_unique<FaultyTransport>(std::move(transport), fault, memory);
}

}  // namespace volley
