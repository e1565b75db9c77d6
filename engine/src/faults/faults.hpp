// Faults on purpose, around any driver: what a transport can do wrong, to show that verification notices.
#pragma once

#include <functional>
#include <future>

#include "measure/timing_loop.hpp"
#include "messages/memory.hpp"

namespace volley {

enum class Fault { none, flip, early, late, lose, swap, echo, wrap, nan, signal, delay, hang, unopened };

struct FaultEntry {
  const char* name;
  const char* summary;
  Fault fault;
};

[[nodiscard]] std::span<const FaultEntry> faults();

// One bit of a message. Consecutive numbers give bits in all parts of the message.
void flip_a_bit(Memory& memory, std::byte* message, std::size_t bytes, std::uint64_t number);

// Calls the driver with other arguments, or changes what it delivered. On all ranks, or on none.
class FaultyDriver final : public Driver {
 public:
  // Who takes part, as far as a fault needs it.
  struct Rank {
    bool stops = false;  // by `hang`
    bool slow = false;   // by `delay`
  };
  // `memory` works where the messages are, and is null where they have no contents. `received_bytes` says how many
  // bytes of a message arrive on this rank; without it all of them. `owned` is the driver, if nobody else has it.
  FaultyDriver(Driver& driver, Fault fault, Memory* memory, Rank rank,
               std::function<std::size_t(std::size_t)> received_bytes = {}, std::unique_ptr<Driver> owned = {});
  ~FaultyDriver() override;

  void prepare(const View& view, const std::optional<Window>& window) override { driver_.prepare(view, window); }
  void run(const View& view, std::uint64_t count, const std::optional<Window>& window) override;
  void arm(const View& view, std::uint64_t count, const std::optional<Window>& window) override {
    const auto [here, counts] = called(view, count, window);
    driver_.arm(here, counts, window);
  }
  void disarm() override { driver_.disarm(); }
  void rest() override { driver_.rest(); }
  [[nodiscard]] std::vector<double> parts_s() const override { return driver_.parts_s(); }

 private:
  using Call = std::function<void(const View&, std::uint64_t count)>;
  using Bytes = std::vector<std::byte>;
  // What is called for a batch, by `early` and `late` a part of it.
  [[nodiscard]] std::pair<View, std::uint64_t> called(const View& view, std::uint64_t count,
                                                      const std::optional<Window>& window) const;
  void change(const View& view, std::uint64_t messages, const Call& call, std::uint64_t count);
  void signal_early(const View& last, const std::function<void()>& call);
  [[nodiscard]] Bytes contents(const std::byte* at, std::size_t bytes);

  const std::unique_ptr<Driver> owned_;
  Driver& driver_;
  const Fault fault_;
  Memory* const memory_;
  const Rank rank_;
  const std::function<std::size_t(std::size_t)> received_bytes_;
  std::uint64_t messages_ = 0;  // of all calls
  std::uint64_t passed_ = 0;    // of the calls of the present pass
  std::uint64_t flipped_ = 0;
  std::future<void> late_bytes_;
};

}  // namespace volley
