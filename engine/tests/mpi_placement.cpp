// At 1, 2 and 4 ranks, bound as volley binds them: the threads that MPI and each transport make are not confined to the
// core on which the rank measures, if the node has another one.
#include <thread>

#include "benchmark/transport_set.hpp"
#include "expect.hpp"
#include "group/group_control.hpp"
#include "machine/launch_environment.hpp"
#include "measure/sampler.hpp"
#include "start_mpi.hpp"
#include "transport/host_driven.hpp"

using namespace volley;

namespace {

// As libraries do that move data in threads of their own.
class ThreadedTransport final : public MpiTransport {
 public:
  void open(const RankGroup& group, const Buffers& buffers) override {
    MpiTransport::open(group, buffers);
    helper_ = std::jthread([](const std::stop_token& stop) {
      while (!stop.stop_requested()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
  }

 private:
  std::jthread helper_;
};

const TransportEntry* threaded_or_known(std::string_view name) {
  static const TransportEntry threaded = [] {
    TransportEntry entry = *find_transport("host");
    entry.name = "threaded";
    entry.make = [] { return std::make_unique<ThreadedTransport>(); };
    return entry;
  }();
  return name == threaded.name ? &threaded : find_transport(name);
}

std::string list_of(const std::vector<int>& cpus) {
  std::string text;
  for (const int cpu : cpus) text += std::to_string(cpu) + ",";
  if (!text.empty()) text.pop_back();
  return text;
}

void judge(const std::map<std::string, int>& threads, const RankCpus& cpus, const std::string& when) {
  const auto confined = threads.find(list_of(cpus.measuring));
  if (confined == threads.end() || cpus.shared()) return;
  std::fprintf(stderr, "%s, %d threads may use the measuring core %s alone\n", when.c_str(), confined->second,
               confined->first.c_str());
  EXPECT(false);
}

void threads_are_not_on_the_measuring_core(const Context& context, const RankGroup& pair) {
  Plan plan;
  for (const auto& entry : registry()) {
    if (entry.mpi != ThroughMpi::on_device_pointers && entry.memory != MemoryKind::none) {
      plan.transports.emplace_back(entry.name);
    }
  }
  plan.transports.emplace_back("threaded");
  Watchdog watchdog("rank " + std::to_string(context.rank), 60);
  watchdog.move_to(context.cpus.spare);
  judge(cpus_of_other_threads(), context.cpus, "after MPI_Init");
  TransportSet transports(context, pair, plan, watchdog, threaded_or_known);
  transports.open({64});
  for (auto& candidate : transports.candidates()) {
    if (!candidate.open) continue;
    const std::string name = candidate.entry->name;
    judge(candidate.threads, context.cpus, name + " is open");
    EXPECT(allowed_cpus() == context.cpus.measuring);
    std::vector<Series> one{transports.series(candidate, 64, true)};
    MpiControl control(pair);
    Sampling sampling;
    sampling.fixed = true;
    if (pair.size() == 2) Sampler(control, sampling, round_trip_workload(), watchdog).measure(one);
    judge(cpus_of_other_threads(), context.cpus, name + " has exchanged messages");
  }
  const auto& threaded = transports.candidates().back();
  EXPECT(threaded.open && !threaded.threads.empty());
  transports.close();
}

}  // namespace

int main() {
  Options options;
  // The tests let ranks outnumber cores; Open MPI then numbers local ranks in another order than MPI does.
  options.bind = launch_environment().local_size.value_or(1) <= static_cast<int>(allowed_cpus().size());
  const Placement placement = place(options);
  start_mpi();
  {
    const Context context = make_context(options, placement);
    EXPECT(allowed_cpus() == context.cpus.measuring);
    const auto pair = make_group(context, context.size == 1 ? std::vector{0} : std::vector{0, 1});
    if (pair) threads_are_not_on_the_measuring_core(context, *pair);
    MPI_Barrier(context.world.get());
  }
  MPI_Finalize();
  return test::finish();
}
