// Messages and computations on a device: kernels compute on a stream of their own while the message moves. The stream
// of the exchange has the higher priority, as a program would give it: kernels of a transport that wait for a
// multiprocessor come before blocks of the computation that wait as well.
#include "benchmark/overlap/overlap_driver.hpp"
#include "gpu/stopwatch.cuh"
#include "measure/timing_loop.hpp"

namespace volley::overlap {

namespace {

struct Streams {
  gpu::Stream exchange = gpu::Stream::urgent();
  gpu::Stream computation = gpu::Stream::make();
};

class DeviceOverlapDriver final : public OverlapDriver {
 public:
  DeviceOverlapDriver(Transport& transport, OverlapWork work, Computation& computation, const Streams& streams)
      : OverlapDriver(transport, work, computation), streams_(streams) {}

  // Events are made before the batch and read behind it.
  void arm(const View&, std::uint64_t count) override {
    if (work_.computes) computations_.reserve(count);
  }

  void windows(const View& view, std::uint64_t count, const Window&) override {
    count_ = count;
    exchange_s_ = 0;
    for (std::uint64_t i = 1; i <= count; ++i) {
      if (work_.computes) compute();
      if (work_.exchanges) {
        exchange_s_ += timed([&] { exchange((i < count ? view : view.last()).message(i - 1)); });
      }
      if (work_.computes) streams_.computation.synchronize();
    }
  }

  void disarm() override { computation_s_ = computations_.read_s(); }

 private:
  void compute() {
    computations_.begin(streams_.computation);
    computation_.compute(steps_);
    computations_.end(streams_.computation);
  }

  void exchange(const View& view) {
    const gpu::Stream& stream = streams_.exchange;
    transport_.enqueue_send(view, stream.get());
    if (transport_.host_driven()) {
      stream.synchronize();
      transport_.start(view);
      transport_.finish();
    }
    transport_.enqueue_recv(view, stream.get());
    stream.synchronize();
    transport_.progress();  // throws if the transport gave up
  }

  const Streams& streams_;
  gpu::Stopwatch computations_;
};

class DeviceComputations final : public Computations {
 public:
  std::unique_ptr<OverlapDriver> driver(Transport& transport, OverlapWork work, Limit limit, int) override {
    return std::make_unique<DeviceOverlapDriver>(transport, work, computation(limit), streams_);
  }

 private:
  std::unique_ptr<Computation> make(Limit limit) override {
    return make_device_computation(limit, streams_.computation);
  }
  Streams streams_;
};

}  // namespace

std::unique_ptr<Computations> make_device_computations() { return std::make_unique<DeviceComputations>(); }

}  // namespace volley::overlap
