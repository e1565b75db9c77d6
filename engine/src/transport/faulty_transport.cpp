#include "transport/faulty_transport.hpp"

#include <algorithm>
#include <new>
#include <vector>

#include "measure/memory.hpp"
#include "transport/agreement.hpp"

namespace volley {

namespace {

class FaultyTransport final : public Transport {
 public:
  FaultyTransport(std::unique_ptr<Transport> transport, Fault fault, MemoryKind kind)
      : transport_(std::move(transport)), fault_(fault), kind_(kind) {}

  std::string unavailable(const Context& context, const RankGroup& pair) override {
    return transport_->unavailable(context, pair);
  }
  std::unique_ptr<Memory> own_memory(const RankGroup& pair) override { return transport_->own_memory(pair); }
  void limit_waits(double seconds) override { transport_->limit_waits(seconds); }
  void open(const RankGroup& pair, const Buffers& buffers) override {
    agreed_step(pair, [&] {
      if (fault_ == Fault::unopened && !pair.leads()) throw std::bad_alloc();
    });
    memory_ = make_memory(kind_);
    messages_ = std::make_unique<FaultyDriver>(*transport_, fault_, memory_.get(), faulty_rank(pair));
    transport_->open(pair, buffers);
  }
  void close() override {
    messages_.reset();
    transport_->close();
  }
  std::size_t max_message_bytes() const override { return transport_->max_message_bytes(); }
  std::uint64_t host_memory_bytes(std::uint64_t bytes, const std::optional<Window>& window) const override {
    return transport_->host_memory_bytes(bytes, window);
  }
  std::string once_a_batch() const override { return transport_->once_a_batch(); }
  Json facts() const override { return transport_->facts(); }

  void prepare(const View& view) override { messages_->prepare(view); }
  void round_trips(const View& view, std::uint64_t exchanges) override { messages_->round_trips(view, exchanges); }
  void windows(const View& view, std::uint64_t count, const Window& window) override {
    messages_->windows(view, count, window);
  }
  void arm(const View& view, std::uint64_t count) override { messages_->arm(view, count); }
  void disarm() override { messages_->disarm(); }
  std::vector<double> parts_s() const override { return messages_->parts_s(); }

  void open_halo(const View& view) override { transport_->open_halo(view); }
  bool host_driven() const override { return transport_->host_driven(); }
  bool staged_through_host() const override { return transport_->staged_through_host(); }
  void enqueue_send(const View& view, gpu::StreamHandle cuda_stream) override {
    transport_->enqueue_send(view, cuda_stream);
  }
  void start(const View& view) override {
    halo_ = view;
    transport_->start(view);
  }
  void progress() override { transport_->progress(); }
  void finish() override {
    transport_->finish();
    if (kind_ == MemoryKind::host) change_halo(halo_);
  }
  void enqueue_recv(const View& view, gpu::StreamHandle cuda_stream) override {
    transport_->enqueue_recv(view, cuda_stream);
    if (kind_ != MemoryKind::device) return;
    memory_->synchronize();  // the halo has arrived
    change_halo(view);
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
  std::unique_ptr<FaultyDriver> messages_;
  View halo_;
  std::uint64_t halos_ = 0;  // that have arrived
};

}  // namespace

std::unique_ptr<Transport> with_fault(std::unique_ptr<Transport> transport, Fault fault, MemoryKind memory) {
  return std::make_unique<FaultyTransport>(std::move(transport), fault, memory);
}

FaultyDriver::Rank faulty_rank(const RankGroup& group) {
  const int first = *std::ranges::min_element(group.ranks);
  const int second = *std::ranges::max_element(group.ranks);
  return {.stops = !group.leads(), .slow = group.size() == 2 && first == 0 && second == 2};
}

}  // namespace volley
