// The benchmark `path`: a few messages of each size between two ranks, and what the network devices of both hosts and
// the links of both GPUs counted meanwhile. The first ranks of the nodes make pairs; on one node the first two ranks
// are the pair. It measures no time.
#include <thread>

#include "benchmark/operations.hpp"
#include "benchmark/transport_set.hpp"
#include "machine/counted_devices.hpp"

namespace volley {
namespace {

class Path final : public Benchmark {
 public:
  void read(PlanObject& options, const Plan& plan) override {
    options.some_sizes("sizes_bytes", sizes_bytes_, 1);
    options.sizes("operation_sizes_bytes", operation_sizes_bytes_);
    operations_ = read_operations(options);
    if (plan.world_size < 2) options.complain_of_plan("world_size", "`path` is between at least 2 ranks");
  }

  Exit run(const Run& run) override {
    std::vector<int> firsts;  // of each node
    for (int rank = 0; rank < run.context->size; ++rank) {
      if (std::ranges::none_of(firsts,
                               [&](int first) { return run.context->node(first) == run.context->node(rank); })) {
        firsts.push_back(rank);
      }
    }
    if (firsts.size() == 1) firsts = {0, 1};
    std::vector<std::array<int, 2>> at_once;
    for (std::size_t i = 1; i < firsts.size(); i += 2) at_once.push_back({firsts[i - 1], firsts[i]});
    send(run, at_once);
    if (firsts.size() % 2 == 1) send(run, {{firsts.front(), firsts.back()}});
    if (!operations_.empty()) perform(run);
    return Exit::good;
  }

 private:
  // So much goes each way, if that is no less than `fewest` messages and no more than `most`: other traffic of the
  // hosts is little beside it, and all sizes together take less than a second at 1 Gbit/s.
  static constexpr std::uint64_t bytes_each_way = 4 << 20;
  static constexpr std::uint64_t fewest = 2, most = 32;
  // Linux reads the counters of an RDMA device again after 10 ms (`lifespan`).
  static constexpr auto until_counted = std::chrono::milliseconds(20);

  // The pairs have no host in common, so that what a device counts is of one pair. Collective over the world.
  void send(const Run& run, const std::vector<std::array<int, 2>>& pairs) const {
    std::vector<std::string> found;
    for (const auto& ends : pairs) {
      if (const auto pair = make_group(*run.context, {ends[0], ends[1]})) found = counted(run, *pair);
    }
    for (const auto& lines : mpi::gather(joined(found, "\n"), run.context->world.get())) run.records.write_lines(lines);
  }

  // NCCL says how it makes an operation when it makes it; MPI says nothing. Collective over the world.
  void perform(const Run& run) const {
    const RankGroup group = everyone(*run.context);
    TransportSet transports(*run.context, group, run.plan, run.watchdog, find_transport, /*collectives*/ true);
    transports.open(operation_sizes_bytes_);
    for (const auto& candidate : transports.candidates()) {
      if (candidate.entry->mpi != ThroughMpi::no) continue;
      for (const auto operation : operations_) {
        const Collective collective = collective_of(operation, Element::float32, group);
        for (const auto bytes : operation_sizes_bytes_) {
          const Series series = transports.series(candidate, collective.whole(bytes), /*verify*/ false);
          if (!series.skipped.empty() || series.memory == MemoryKind::none) continue;
          if (!refused_operation(run.plan, collective, collective.whole(bytes), *candidate.entry).empty()) continue;
          run.watchdog.enter("performing " + std::string(name_of(operation)) + " on transport " + series.name);
          const auto driver = candidate.transport->collectives()->driver(collective);
          agreed_step(group, [&] { driver->prepare(series.view, {}); });
          driver->run(series.view, 1, {});
        }
      }
    }
    transports.close();
  }

  // The records of a pair, a line each; nothing on its second rank.
  [[nodiscard]] std::vector<std::string> counted(const Run& run, const RankGroup& pair) const {
    TransportSet transports(*run.context, pair, run.plan, run.watchdog);
    transports.open(sizes_bytes_);
    std::vector<std::string> found;
    for (const auto& candidate : transports.candidates()) {
      for (const auto bytes : sizes_bytes_) {
        const Series series = transports.series(candidate, bytes, /*verify*/ false);
        if (!series.skipped.empty() || series.memory == MemoryKind::none) continue;
        run.watchdog.enter("sending on transport " + series.name + ", " + pair.name);
        const Json record = counted(run, pair, series);
        if (pair.leads()) found.push_back(record.text());
      }
    }
    transports.close();
    return found;
  }

  static Json counted(const Run& run, const RankGroup& pair, const Series& series) {
    const std::uint64_t exchanges = std::clamp(bytes_each_way / series.view.bytes, fewest, most);
    const bool late = std::ranges::any_of(network_devices(), &CountedDevice::rdma);
    const auto send = [&](std::uint64_t count) {
      run.watchdog.progress(static_cast<double>(2 * count * series.view.bytes) / slowest_bytes_per_s);
      series.driver->run(series.view, count, {});
      VOLLEY_MPI(MPI_Barrier(pair.control.get()));
      if (late) std::this_thread::sleep_for(until_counted);
    };
    agreed_step(pair, [&] { series.driver->prepare(series.view, {}); });  // on both ranks before the first message
    send(1);                                                              // connects
    const auto of_gpus = gpus(run.job, pair, series);
    const auto before = devices(of_gpus);
    VOLLEY_MPI(MPI_Barrier(pair.control.get()));
    send(exchanges);
    const auto after = devices(of_gpus);
    Json end = {{"rank", pair.rank(pair.self)},
                {"host", run.job.host(run.job.rank)},
                {"gpu", of_gpus[0]},
                {"devices", Json::array()}};
    for (const auto& now : after) {
      const auto then = std::ranges::find(before, now.name, &CountedDevice::name);
      if (then != before.end()) end["devices"].push_back(difference(now, *then));
    }
    Json ends = Json::array();
    for (const auto& text : mpi::gather(end.text(), pair.control.get())) ends.push_back(Json::written(text));
    return {{"record", "path"},         {"version", record_version},
            {"transport", series.name}, {"size_bytes", series.view.bytes},
            {"exchanges", exchanges},   {"ends", ends}};
  }

  // The PCI addresses of the GPUs whose memory the messages of a series are in: of this rank's and of the other's, if
  // that is on this node. Empty: there is none.
  static std::array<std::string, 2> gpus(const Job& job, const RankGroup& pair, const Series& series) {
    std::array<std::string, 2> found;
    const int other = pair.rank(pair.peer());
    if (series.memory != MemoryKind::device) return found;
    if (const auto& device = job.facts(job.rank).device) found[0] = device->pci;
    if (job.node(other) != job.node(job.rank)) return found;
    if (const auto& device = job.facts(other).device) found[1] = device->pci;
    return found;
  }

  static std::vector<CountedDevice> devices(const std::array<std::string, 2>& gpus) {
    auto found = network_devices();
    if (!gpus[0].empty()) std::ranges::copy(gpu_links(gpus[0], gpus[1]), std::back_inserter(found));
    return found;
  }

  static Json difference(const CountedDevice& now, const CountedDevice& then) {
    return {{"name", now.name},
            {"rdma", now.rdma},
            {"gpu", now.gpu},
            {"up", now.up},
            {"rate_bits_per_s", now.rate_bits_per_s > 0 ? Json(now.rate_bits_per_s) : Json(nullptr)},
            {"shared", now.shared},
            {"sent_bytes", counted_since(then.sent_bytes, now.sent_bytes)},
            {"received_bytes", counted_since(then.received_bytes, now.received_bytes)},
            {"sent_packets", counted_since(then.sent_packets, now.sent_packets)},
            {"received_packets", counted_since(then.received_packets, now.received_packets)}};
  }

  std::vector<std::uint64_t> sizes_bytes_;
  std::vector<std::uint64_t> operation_sizes_bytes_;
  std::vector<Operation> operations_;
};

}  // namespace

std::unique_ptr<Benchmark> make_path() { return std::make_unique<Path>(); }

}  // namespace volley
