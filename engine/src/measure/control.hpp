// Communication between the ends of a measurement, outside the timed region.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <type_traits>

#include "base/errors.hpp"
#include "measure/timing_loop.hpp"

namespace volley {

// The time of a batch for all ends together and, if known, how far apart they entered it and the mean of their own
// times.
struct Elapsed {
  double seconds = 0;
  std::optional<double> entry_skew_s = {};
  std::optional<double> mean_s = {};
};

class Control {
 public:
  virtual ~Control() = default;

  // The ends have numbers; the first, 0, leads: it decides for all.
  [[nodiscard]] virtual int ends() const = 0;
  [[nodiscard]] virtual int number() const = 0;
  [[nodiscard]] bool leads() const { return number() == 0; }
  // This end's name in messages: its world rank, or the number of its GPU.
  [[nodiscard]] virtual int id() const = 0;
  // The ends, e.g. "pair 0-1".
  [[nodiscard]] virtual std::string name() const = 0;
  // The direction of what this end sends, and of what it receives, as in Stamp: each direction has its own contents.
  [[nodiscard]] virtual int sends() const { return 0; }
  [[nodiscard]] virtual int receives() const { return 0; }

  // Waits until all ends have finished with their buffers. They then enter the batch as close together as possible.
  virtual void ready() = 0;

  // Copies `count` bytes of the end with number `from` to all ends.
  virtual void share(void* bytes, std::size_t count, int from) = 0;

  // Returns the value of the end with number `from` on all ends.
  template <class Value>
  [[nodiscard]] Value shared(Value value, int from = 0) {
    static_assert(std::is_trivially_copyable_v<Value>);
    share(&value, sizeof value, from);
    return value;
  }

  // The number of the first end that passes true; -1 if none does.
  [[nodiscard]] virtual int first_of(bool mine) = 0;

  // Takes this step on each end. If it throws on one of them, returns the reason, the same on all ends.
  [[nodiscard]] virtual std::string agreed_problem(const std::function<void()>& step) = 0;

  // The time of a batch; `mine` is when this end began and ended it.
  [[nodiscard]] virtual Elapsed elapsed(const Span& mine) { return {.seconds = seconds_of(mine)}; }
};

// One process has both ends, so that they count as one and no communication is necessary. Their names are the numbers
// of GPUs.
class LocalControl : public Control {
 public:
  LocalControl(int first, int second) : ids_{first, second} {}
  void between(int first, int second) { ids_ = {first, second}; }
  [[nodiscard]] int ends() const override { return 1; }
  [[nodiscard]] int number() const override { return 0; }
  [[nodiscard]] int id() const override { return ids_[0]; }
  [[nodiscard]] std::string name() const override {
    return "pair " + std::to_string(ids_[0]) + "-" + std::to_string(ids_[1]);
  }
  void ready() override {}
  void share(void*, std::size_t, int) override {}
  [[nodiscard]] int first_of(bool mine) override { return mine ? 0 : -1; }
  // There is nobody who waits: what is thrown ends the measurement.
  [[nodiscard]] std::string agreed_problem(const std::function<void()>& step) override {
    step();
    return {};
  }

 private:
  std::array<int, 2> ids_;
};

}  // namespace volley
