#include "benchmark/probe.hpp"

#include "benchmark/transport_set.hpp"

namespace volley {

namespace {

class Probe final : public Benchmark {
 public:
  void read(PlanPart& options, const Plan& plan) override {
    if (plan.world_size < 2) options.complain_of_plan("world_size", "a probe needs at least 2 ranks, found 1");
  }

  Exit run(const Run& run) override {
    const auto pair = make_group(*run.context, {0, 1});
    if (!pair) return Exit::good;
    run.watchdog.enter("finding out which transports can be used");
    TransportSet(*run.context, *pair, run.plan).write_records(run.records);
    return Exit::good;
  }
};

}  // namespace

std::unique_ptr<Benchmark> make_probe() { return std::make_unique<Probe>(); }

}  // namespace volley
