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

// Halos, or an operation that is started and awaited. `received_bytes` says how many bytes of it arrive on this rank.
class FaultyExchange final : public HaloExchange {
 public:
  FaultyExchange(HaloExchange& right, Fault fault, MemoryKind kind, Memory* memory,
                 std::function<std::size_t(std::size_t)> received_bytes = {}, std::unique_ptr<HaloExchange> owned = {})
      : owned_(std::move(owned)),
        right_(right),
        fault_(fault),
        kind_(kind),
        memory_(memory),
        received_bytes_(std::move(received_bytes)) {}

  void open_halo(const View& view) override { right_.open_halo(view); }
  bool open_line(const HaloLine& line) override {
    if (!right_.open_line(line)) return false;
    line_ = line;
    return true;
  }
  bool host_driven() const override { return right_.host_driven(); }
  bool staged_through_host() const override { return right_.staged_through_host(); }
  void enqueue_send(const View& view, gpu::StreamHandle cuda_stream) override {
    right_.enqueue_send(view, cuda_stream);
  }
  void start(const View& view) override {
    halo_ = view;
    right_.start(view);
  }
  void progress() override { right_.progress(); }
  void finish() override {
    right_.finish();
    if (kind_ != MemoryKind::host) return;
    if (line_.points == 0) return change(halo_);
    Bytes sent(halo_.bytes);
    Bytes received(halo_.bytes);
    line_.pack(sent.data(), halo_.send);
    line_.pack(received.data(), halo_.recv);
    change({sent.data(), received.data(), halo_.bytes});
    line_.unpack(halo_.recv, received.data());
  }
  void enqueue_recv(const View& view, gpu::StreamHandle cuda_stream) override {
    right_.enqueue_recv(view, cuda_stream);
    if (kind_ != MemoryKind::device) return;
    memory_->synchronize();  // the halo has arrived
    change(view);
  }

 private:
  using Bytes = std::vector<std::byte>;

  // The first halo at each of the two places arrives as it was sent. The NaNs belong to the fourth iteration.
  void change(const View& halo) {
    const std::uint64_t number = halos_++;
    const std::size_t bytes = received_bytes_ ? received_bytes_(halo.bytes) : halo.bytes;
    if (bytes == 0) return;
    if (fault_ == Fault::flip && number >= 2) flip_a_bit(*memory_, halo.recv, bytes, number);
    if (fault_ == Fault::echo) memory_->copy(halo.recv, halo.send, bytes);
    if (fault_ != Fault::nan || number != 4) return;
    const Bytes ones(bytes, std::byte{0xFF});
    memory_->copy(halo.recv, ones.data(), bytes);
  }

  const std::unique_ptr<HaloExchange> owned_;
  HaloExchange& right_;
  const Fault fault_;
  const MemoryKind kind_;
  Memory* const memory_;
  const std::function<std::size_t(std::size_t)> received_bytes_;
  View halo_;
  HaloLine line_;            // of a halo in a field; no points otherwise
  std::uint64_t halos_ = 0;  // that have arrived
};

class FaultyTransport final : public Transport, public Collectives {
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
    if (HaloExchange* const halo = transport_->halo()) {
      halo_ = std::make_unique<FaultyExchange>(*halo, fault_, kind_, memory_.get());
    }
  }
  void close() override {
    messages_.reset();
    halo_.reset();
    transport_->close();
  }
  Driver* messages() override { return messages_.get(); }
  HaloExchange* halo() override { return halo_.get(); }
  Collectives* collectives() override { return transport_->collectives() == nullptr ? nullptr : this; }
  std::string refuses(std::size_t bytes) const override { return transport_->refuses(bytes); }
  std::uint64_t host_memory_bytes(std::uint64_t bytes, const std::optional<Window>& window) const override {
    return transport_->host_memory_bytes(bytes, window);
  }
  int threads() const override { return transport_->threads(); }
  std::string keeps_place() const override { return transport_->keeps_place(); }
  bool restarts() const override { return transport_->restarts(); }
  std::string once_a_batch() const override { return transport_->once_a_batch(); }
  Stamps* stamps() override { return transport_->stamps(); }
  Json facts() const override { return transport_->facts(); }

  std::uint64_t collective_memory_bytes(std::uint64_t bytes) const override {
    return transport_->collectives()->collective_memory_bytes(bytes);
  }
  std::unique_ptr<Driver> driver(const Collective& collective) override {
    const auto received_bytes = [collective](std::size_t bytes) { return collective.received_bytes(bytes); };
    auto made = transport_->collectives()->driver(collective);
    Driver& right = *made;
    return std::make_unique<FaultyDriver>(right, fault_, memory_.get(), rank_, received_bytes, std::move(made));
  }
  std::unique_ptr<HaloExchange> exchange(const Collective& collective) override {
    auto made = transport_->collectives()->exchange(collective);
    if (!made) return nullptr;
    const auto received_bytes = [collective](std::size_t bytes) { return collective.received_bytes(bytes); };
    HaloExchange& right = *made;
    return std::make_unique<FaultyExchange>(right, fault_, kind_, memory_.get(), received_bytes, std::move(made));
  }

 private:
  std::unique_ptr<Transport> transport_;
  const Fault fault_;
  const MemoryKind kind_;
  std::unique_ptr<Memory> memory_;
  FaultyDriver::Rank rank_;
  std::unique_ptr<FaultyDriver> messages_;
  std::unique_ptr<FaultyExchange> halo_;
};

}  // namespace

std::unique_ptr<Transport> with_fault(std::unique_ptr<Transport> transport, Fault fault, MemoryKind memory) {
  return std::make_unique<FaultyTransport>(std::move(transport), fault, memory);
}

}  // namespace volley
