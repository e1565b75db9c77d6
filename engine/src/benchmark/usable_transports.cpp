// The benchmarks `probe`, which finds the transports that two ranks can use, and `self_send`, in which a rank sends to
// itself where no second one can be started. They measure nothing.
#include "benchmark/transport_set.hpp"

namespace volley {
namespace {

constexpr const char* one_rank = "this job has one rank, and two are needed";

class Probe final : public Benchmark {
 public:
  void read(PlanObject&, const Plan&) override {}

  Exit run(const Run& run) override {
    constexpr std::uint64_t message_bytes = 8;
    if (run.job.size < 2) {
      for (const auto& name : run.plan.transports) {
        run.records.write(transport_record(*find_transport(name), one_rank, Json::object()));
      }
      return Exit::good;
    }
    const auto pair = make_group(*run.context, {0, 1});
    if (!pair) return Exit::good;
    TransportSet transports(*run.context, *pair, run.plan, run.watchdog);
    transports.open({message_bytes});
    transports.write_records(run.records);
    transports.close();
    return Exit::good;
  }
};

class SelfSend final : public Benchmark {
 public:
  void read(PlanObject& options, const Plan& plan) override {
    options.sizes("sizes_bytes", sizes_bytes_);
    if (plan.world_size == 1) return;
    options.complain_of_plan("world_size", "one rank sends to itself, found " + std::to_string(plan.world_size));
  }

  Exit run(const Run& run) override {
    run.watchdog.enter("sending to itself");
    for (const auto& name : run.plan.transports) {
      const TransportEntry& entry = *find_transport(name);
      run.records.write(transport_record(entry, send(*run.context, entry), Json::object()));
    }
    return Exit::good;
  }

 private:
  // Sends one message of each size to this rank and checks it. Returns why that is not possible or what went wrong;
  // empty if all messages arrived.
  std::string send(const Context& context, const TransportEntry& entry) const {
    if (entry.mpi == ThroughMpi::no || sizes_bytes_.empty()) return one_rank;
    if (entry.memory == MemoryKind::device && context.gpus.devices == 0) return context.gpus.reason;
    const auto group = make_group(context, {0});
    const auto memory = make_memory(entry.memory);
    const auto transport = entry.make();
    const Buffers buffers = memory->reserve(std::ranges::max(sizes_bytes_));
    transport->open(*group, buffers);
    std::string reason;
    for (const auto bytes : sizes_bytes_) {
      if (arrives(*transport->messages(), *memory, {buffers.send, buffers.recv, bytes})) continue;
      reason =
          "a message of " + std::to_string(bytes) + " bytes that a rank sent to itself did not arrive as it was sent";
      break;
    }
    transport->close();
    memory->release();
    return reason;
  }

  // With both directions the rank posts its receive before its send.
  static bool arrives(Driver& messages, Memory& memory, const View& view) {
    const std::uint64_t seed = seed_of({view.bytes, 0, 0});
    memory.fill(view.send, view.bytes, seed);
    memory.poison(view.recv, view.bytes, seed);
    const Window window{.messages = 1, .direction = Direction::bi};
    messages.prepare(view, window);
    messages.run(view, 1, window);
    return !memory.check(view.recv, view.bytes, seed);
  }

  std::vector<std::uint64_t> sizes_bytes_;
};

}  // namespace

std::unique_ptr<Benchmark> make_probe() { return std::make_unique<Probe>(); }
std::unique_ptr<Benchmark> make_self_send() { return std::make_unique<SelfSend>(); }

}  // namespace volley
