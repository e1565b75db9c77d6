// On a device: kernels compute on a stream of their own while the message moves. The stream of the exchange has the
// higher priority, as a program would give it: kernels of a transport that wait for a multiprocessor come before blocks
// of the computation that wait as well.
#include <algorithm>

#include "benchmark/overlap/overlap.hpp"
#include "gpu/kernel_launch.cuh"

namespace volley::overlap {
namespace {

constexpr unsigned threads = 256;
// Blocks of a launch; a longer computation gives each block several steps.
constexpr std::uint64_t max_blocks = std::uint64_t{1} << 20;

unsigned blocks_for(std::uint64_t steps) {
  return static_cast<unsigned>(std::clamp<std::uint64_t>(steps, 1, max_blocks));
}

// --- y = a x + y; a step is one element for each thread of a block ---

__global__ void begin_arrays(double* x, double* y, std::uint64_t elements) {
  const std::uint64_t all = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < elements; i += all) {
    x[i] = 1.0;
    y[i] = 0.0;
  }
}

__global__ void add_product(double a, const double* x, double* y, std::uint64_t first, std::uint64_t steps,
                            std::uint64_t elements) {
  for (std::uint64_t step = blockIdx.x; step < steps; step += gridDim.x) {
    std::uint64_t i = first + step * threads + threadIdx.x;
    if (i >= elements) i -= elements;
    y[i] = a * x[i] + y[i];
  }
}

__global__ void count_wrong(const double* y, std::uint64_t next, double rounds, std::uint64_t elements,
                            unsigned long long* wrong) {
  const std::uint64_t all = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < elements; i += all) {
    if (y[i] != rounds + (i < next ? 1.0 : 0.0)) atomicAdd(wrong, 1ULL);
  }
}

// --- v = v m + a in registers; a step is `rounds_per_step` of them in each chain of each thread of a block ---

constexpr int chains = 4;
constexpr int rounds_per_step = 64;

struct StepCounts {
  unsigned long long done;
  unsigned long long wrong;
};

__global__ void multiply_add(double m, double a, std::uint64_t steps, StepCounts* counts) {
  for (std::uint64_t step = blockIdx.x; step < steps; step += gridDim.x) {
    double v[chains] = {};
#pragma unroll 1
    for (int round = 0; round < rounds_per_step; ++round) {
#pragma unroll
      for (double& each : v) each = each * m + a;
    }
    for (const double each : v) {
      if (each != rounds_per_step) atomicAdd(&counts->wrong, 1ULL);
    }
    if (threadIdx.x == 0) atomicAdd(&counts->done, 1ULL);
  }
}

template <class Value>
Value on_host(const gpu::DeviceValues<Value>& device) {
  Value value;
  gpu::synchronize();
  gpu::copy<gpu::to_host>(&value, device.data(), sizeof value);
  return value;
}

std::string miscounted(std::uint64_t wrong, const char* what) {
  if (wrong == 0) return {};
  return std::to_string(wrong) + " " + what + " of the computation are wrong";
}

struct Streams {
  gpu::Stream exchange = gpu::Stream::urgent();
  gpu::Stream computation = gpu::Stream::make();
};

class DeviceOverlapDriver final : public OverlapDriver {
 public:
  DeviceOverlapDriver(HaloExchange& halo, OverlapWork work, Computation& computation, const Streams& streams)
      : OverlapDriver(halo, work, computation), streams_(streams) {}

  // Events are made before the batch and read after it.
  void arm(const View&, std::uint64_t count, const std::optional<Window>&) override {
    if (work_.computes) computations_.reserve(count);
  }

  void run(const View& view, std::uint64_t count, const std::optional<Window>&) override {
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
    halo_.enqueue_send(view, stream.get());
    if (halo_.host_driven()) {
      stream.synchronize();
      halo_.start(view);
      halo_.finish();
    }
    halo_.enqueue_recv(view, stream.get());
    stream.synchronize();
    halo_.progress();  // throws if the transport gave up
  }

  const Streams& streams_;
  gpu::Stopwatch computations_;
};

class DeviceComputation : public Computation {
 public:
  std::unique_ptr<OverlapDriver> driver(HaloExchange& halo, OverlapWork work, int) final {
    return std::make_unique<DeviceOverlapDriver>(halo, work, *this, streams_);
  }

 protected:
  Streams streams_;
};

class MemoryBoundKernel final : public DeviceComputation {
 public:
  MemoryBoundKernel() : x_(elements), y_(elements), wrong_(1) {
    begin_arrays<<<blocks_for(elements / threads), threads>>>(x_.data(), y_.data(), elements);
    gpu::check_launch();
    gpu::zero(wrong_.data(), sizeof(unsigned long long));
  }

  void compute(std::uint64_t steps) override {
    // No two steps of a launch are about the same element.
    for (std::uint64_t left = steps; left > 0;) {
      const std::uint64_t now = std::min(left, elements / threads);
      add_product<<<blocks_for(now), threads, 0, streams_.computation.get()>>>(1.0, x_.data(), y_.data(),
                                                                               added_ % elements, now, elements);
      gpu::check_launch();
      added_ += now * threads;
      left -= now;
    }
  }

  std::string wrong() override {
    gpu::synchronize();
    count_wrong<<<blocks_for(elements / threads), threads>>>(
        y_.data(), added_ % elements, static_cast<double>(added_ / elements), elements, wrong_.data());
    gpu::check_launch();
    return miscounted(on_host(wrong_), "results");
  }

  std::size_t working_set_bytes() const override { return 2 * bytes; }

 private:
  static constexpr std::size_t bytes = device_working_set_bytes / 2;  // of each array
  static constexpr std::uint64_t elements = bytes / sizeof(double);
  static_assert(elements % threads == 0);

  gpu::DeviceValues<double> x_;
  gpu::DeviceValues<double> y_;
  gpu::DeviceValues<unsigned long long> wrong_;
  std::uint64_t added_ = 0;  // elements
};

class ArithmeticBoundKernel final : public DeviceComputation {
 public:
  ArithmeticBoundKernel() : counts_(1) { gpu::zero(counts_.data(), sizeof(StepCounts)); }

  void compute(std::uint64_t steps) override {
    multiply_add<<<blocks_for(steps), threads, 0, streams_.computation.get()>>>(1.0, 1.0, steps, counts_.data());
    gpu::check_launch();
    steps_ += steps;
  }

  std::string wrong() override {
    const auto counts = on_host(counts_);
    if (counts.done != steps_) {
      return std::to_string(counts.done) + " of " + std::to_string(steps_) + " steps of the computation were made";
    }
    return miscounted(counts.wrong, "results");
  }

 private:
  gpu::DeviceValues<StepCounts> counts_;
  std::uint64_t steps_ = 0;
};

}  // namespace

std::unique_ptr<Computation> make_device_computation(Limit limit) {
  if (limit == Limit::memory) return std::make_unique<MemoryBoundKernel>();
  return std::make_unique<ArithmeticBoundKernel>();
}

}  // namespace volley::overlap
