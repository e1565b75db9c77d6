// The benchmark `probe` finds which transports two ranks can use. It measures nothing.
#include "benchmark/benchmark.hpp"
#include "benchmark/transport_set.hpp"

namespace volley {

namespace {

class Probe final : public Benchmark {
 public:
  void read(PlanObject&, const Plan&) override {}

  Exit run(const Run& run) override {
    if (run.job.size < 2) return alone(run);
    const auto pair = make_group(*run.context, {0, 1});
    if (!pair) return Exit::good;
    TransportSet transports(*run.context, *pair, run.plan, run.watchdog);
    transports.open({message_bytes});
    transports.write_records(run.records);
    transports.close();
    return Exit::good;
  }

 private:
  static constexpr std::uint64_t message_bytes = 8;

  static Exit alone(const Run& run) {
    for (const auto& name : run.plan.transports) {
      run.records.write(
          transport_record(*find_transport(name), "this job has one rank, and two are needed", Json::object()));
    }
    return Exit::good;
  }
};

}  // namespace

std::unique_ptr<Benchmark> make_probe() { return std::make_unique<Probe>(); }

}  // namespace volley
