// Computations of one rank, and its part of an overlap as the sampler times it.
#pragma once

#include "measure/control.hpp"
#include "measure/watchdog.hpp"
#include "transport/transport.hpp"

namespace volley::overlap {

// What a rank computes while messages move: multiply-adds whose operands come from memory, or stay in registers.
enum class Limit { memory, arithmetic };  // of the computation's speed

[[nodiscard]] inline const char* name_of(Limit limit) { return limit == Limit::memory ? "memory" : "arithmetic"; }

// What happens in one count of a batch.
struct OverlapWork {
  bool exchanges = false;  // both ranks send a message and receive one
  bool computes = false;
};

class OverlapDriver;

// Every result is a whole number that says how often it was computed, so that it can be checked exactly.
class Computation {
 public:
  virtual ~Computation() = default;
  // Repeats this computation, an exchange of halos, or both at once. On the host the halo's transport is called
  // `progress_calls` times meanwhile.
  [[nodiscard]] virtual std::unique_ptr<OverlapDriver> driver(HaloExchange& halo, OverlapWork work,
                                                              int progress_calls) = 0;
  // On the host it returns when this many steps are made; on a device it enqueues them.
  virtual void compute(std::uint64_t steps) = 0;
  // How the work of this many steps is wrong, of all since this object was made; empty if it is right.
  [[nodiscard]] virtual std::string wrong() = 0;
  // Bytes of the arrays that it goes through; 0 if it stays in registers.
  [[nodiscard]] virtual std::size_t working_set_bytes() const { return 0; }
};

// What it repeats is an exchange, a computation, or both at once.
class OverlapDriver : public Driver {
 public:
  OverlapDriver(HaloExchange& halo, OverlapWork work, Computation& computation)
      : halo_(halo), work_(work), computation_(computation) {}

  // Of each computation of a batch from now on.
  void set_steps(std::uint64_t steps) { steps_ = steps; }

  void prepare(const View& view, const std::optional<Window>&) final {
    if (work_.exchanges) halo_.open_halo(view);
  }

  // In the order of TimedPart.
  [[nodiscard]] std::vector<double> parts_s() const final {
    const auto count = static_cast<double>(count_);
    return {exchange_s_ / count, computation_s_ / count};
  }

 protected:
  HaloExchange& halo_;
  const OverlapWork work_;
  Computation& computation_;
  std::uint64_t steps_ = 1;
  std::uint64_t count_ = 1;  // of the latest batch, as the sums below
  double exchange_s_ = 0;
  double computation_s_ = 0;
};

enum TimedPart : std::size_t {
  exchange_part,     // from the start of the exchange until this rank knows that it is complete
  computation_part,  // from the start of the computation to its end
};

// Bytes of the arrays of a computation that is bound by memory: on the host both together are four times as large as
// the last cache; on a device the caches of GPUs of 2026 have up to 126 MB (NVIDIA, B200).
[[nodiscard]] std::size_t host_working_set_bytes();
inline constexpr std::size_t device_working_set_bytes = std::size_t{512} << 20;

// Beside messages in host memory, and in device memory.
[[nodiscard]] std::unique_ptr<Computation> make_host_computation(Limit limit);
[[nodiscard]] std::unique_ptr<Computation> make_device_computation(Limit limit);

// The steps that take this long on the first rank while the other one computes, too. Collective over both ends.
[[nodiscard]] std::uint64_t steps_for(Control& control, Watchdog& watchdog, OverlapDriver& alone, double wanted_s);

}  // namespace volley::overlap
