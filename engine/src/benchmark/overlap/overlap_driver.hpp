// One rank's part of an overlap, as the sampler times it.
#pragma once

#include <memory>
#include <vector>

#include "benchmark/overlap/computation.hpp"
#include "transport/transport.hpp"

namespace volley::overlap {

// What happens in one count of a batch.
struct Work {
  bool exchanges = false;  // both ranks send a message and receive one
  bool computes = false;
};

// A batch of the sampler's is a number of windows here; each is an exchange, a computation, or both at once.
class OverlapDriver : public Driver {
 public:
  explicit OverlapDriver(Work work) : work_(work) {}

  // Of each computation of a batch from now on.
  void set_steps(std::uint64_t steps) { steps_ = steps; }

  void round_trips(const View&, std::uint64_t) final { throw std::logic_error("an overlap has no round trips"); }

 protected:
  Work work_;
  std::uint64_t steps_ = 1;
};

// In the order of OverlapDriver::parts_s().
enum TimedPart : std::size_t {
  exchange_part,     // from the start of the exchange until this rank knows that it is complete
  computation_part,  // from the start of the computation to its end
};

// The computations beside messages in one kind of memory, and the drivers that share them.
class Computations {
 public:
  virtual ~Computations() = default;
  [[nodiscard]] virtual Computation& computation(Limit limit) = 0;
  // The transport stays the caller's. `progress_calls`: how often a rank that computes on the host calls the transport
  // meanwhile.
  [[nodiscard]] virtual std::unique_ptr<OverlapDriver> driver(Transport& transport, Work work, Limit limit,
                                                              int progress_calls) = 0;
};

// Computes on a core of the host.
[[nodiscard]] std::unique_ptr<Computations> make_host_computations();
// Computes on the current device, by kernels on a stream of their own.
[[nodiscard]] std::unique_ptr<Computations> make_device_computations();

}  // namespace volley::overlap
