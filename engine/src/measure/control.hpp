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

  // The first end leads: it decides for all.
  [[nodiscard]] virtual bool leads() const = 0;
  // This end's name in messages: its world rank, or the number of its GPU.
  [[nodiscard]] virtual int id() const = 0;
  // The ends, e.g. "pair 0-1".
  [[nodiscard]] virtual std::string name() const = 0;
  // The direction of what this end sends, and of what it receives, as in Stamp: each direction has its own contents.
  [[nodiscard]] virtual int sends() const = 0;
  [[nodiscard]] virtual int receives() const = 0;

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

  // What the first end throws that cannot take this step, the same on all ends; empty if all have taken it.
  [[nodiscard]] virtual std::string problem_of(const std::function<void()>& step) {
    std::string problem = volley::problem_of(step);
    if (!problem.empty()) problem += " (rank " + std::to_string(id()) + ")";
    const int failed = first_of(!problem.empty());
    if (failed < 0) return {};
    problem.resize(shared(problem.size(), failed));
    share(problem.data(), problem.size(), failed);
    return problem;
  }

  // The time of a batch; `mine` is when this end began and ended it.
  [[nodiscard]] virtual Elapsed elapsed(const Span& mine) { return {.seconds = seconds_of(mine)}; }
};

class PairControl : public Control {
 public:
  // `ids` name the two ends; `self` is this process's end, `peer` the other one, or itself where one process has both.
  PairControl(const std::array<int, 2>& ids, int self, int peer) : ids_(ids), self_(self), peer_(peer) {}

  [[nodiscard]] bool leads() const override { return self_ == 0; }
  [[nodiscard]] int id() const override { return ids_[static_cast<std::size_t>(self_)]; }
  [[nodiscard]] std::string name() const override {
    return "pair " + std::to_string(ids_[0]) + "-" + std::to_string(ids_[1]);
  }
  [[nodiscard]] int sends() const override { return self_; }
  [[nodiscard]] int receives() const override { return peer_; }
  [[nodiscard]] int peer() const { return peer_; }

  [[nodiscard]] int first_of(bool mine) override {
    if (shared(mine, 0)) return 0;
    return shared(mine, 1) ? 1 : -1;
  }

 protected:
  std::array<int, 2> ids_;

 private:
  int self_;
  int peer_;
};

// One process has both ends, so no communication is necessary.
class LocalControl final : public PairControl {
 public:
  LocalControl(int first, int second) : PairControl({first, second}, 0, 0) {}
  void between(int first, int second) { ids_ = {first, second}; }
  void ready() override {}
  void share(void*, std::size_t, int) override {}
  // There is nobody who waits: what is thrown ends the measurement.
  [[nodiscard]] std::string problem_of(const std::function<void()>& step) override {
    step();
    return {};
  }
};

}  // namespace volley
