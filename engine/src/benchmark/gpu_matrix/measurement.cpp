// Measures the cells of the matrices. Writes a record for the GPUs, then one for each row of each section.
#include <numeric>
#include <set>

#include "benchmark/benchmark.hpp"
#include "benchmark/gpu_matrix/links.cuh"
#include "faults/faults.hpp"
#include "measure/sampler.hpp"

namespace volley::gpu_matrix {
namespace {

// A batch of small copies is enqueued after a kernel that holds the stream. It must fit into the driver's queue,
// which takes about a thousand; where the host stages them, each copy is several.
constexpr std::uint64_t max_enqueued = 256;
constexpr std::uint64_t max_enqueued_staged = 100;
// In quick mode: of the calls that enqueue, and of copies that the host stages.
constexpr std::uint64_t max_enqueued_quick = 40;
// Messages are many times as large as a GPU's caches: if a window takes longer, none has to warm them.
constexpr SamplingLimits usual_limits{.long_exchange_s = 8e-3};
// Quick mode takes about as long as the CUDA sample.
constexpr SamplingLimits quick_limits{.sample_s = 0.2e-3,
                                      .empty_samples = 9,
                                      .visit_s = 0,
                                      .calibration_s = 0,
                                      .calibration_batches = 2,
                                      .long_exchange_s = 0.2e-3};
// A GPU that hung with this many others is not measured any more.
constexpr std::size_t max_hung_pairs = 2;
// A link times out before the watchdog ends the process.
constexpr double max_timeout_s = 10;

constexpr std::uint64_t page_bytes = 4096;
// The small sections need at most this many bytes, and a plan asks for at least this many.
constexpr std::uint64_t min_bytes = std::uint64_t{64} << 10;
// Around a message of device memory (gpu/device_memory.cu).
constexpr std::uint64_t around_bytes = gpu::overhead_bytes_per_buffer;
constexpr std::uint64_t buffers_of_a_gpu = 4;

std::unique_ptr<GpuEndpoint> make_endpoint(int device, std::uint64_t bytes) {
  gpu::select(device);
  auto made = std::make_unique<GpuEndpoint>();
  made->device = device;
  for (std::size_t operation = 0; operation < 2; ++operation) {
    made->memories[operation] = gpu::make_memory();
    made->buffers[operation] = made->memories[operation]->reserve(bytes);
    made->streams[operation] = gpu::Stream::make();
  }
  made->blocker = std::make_unique<StreamBlocker>();
  return made;
}

std::uint64_t free_bytes(int device) {
  gpu::select(device);
  return gpu::free_memory_bytes();
}

// of_device() of all devices, in parallel: a context takes a tenth of a second.
template <class OfDevice>
auto for_each_device(const std::vector<int>& devices, const OfDevice& of_device) {
  std::vector<std::future<decltype(of_device(0))>> pending;
  for (const int device : devices) {
    pending.push_back(std::async(std::launch::async, [&of_device, device] { return of_device(device); }));
  }
  std::vector<decltype(of_device(0))> made;
  for (auto& each : pending) made.push_back(each.get());
  return made;
}

std::vector<int> devices_of(const Job& job, const GpuMatrixOptions& options) {
  if (!options.gpus.empty()) return options.gpus;
  std::vector<int> all(static_cast<std::size_t>(job.gpus.devices));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// The sections of the plan, in the order of the table in section.cpp.
std::vector<Section> sections_of(const GpuMatrixOptions& options) {
  std::vector<Section> chosen;
  for (const auto& section : sections()) {
    const auto& asked = options.sections;
    if (std::find(asked.begin(), asked.end(), section.name) == asked.end()) continue;
    chosen.push_back(options.quick ? quick(section) : section);
  }
  return chosen;
}

Workload workload_of(const Section& section, bool quick) {
  const bool stores = section.metric == Metric::store;
  const bool loads = section.metric == Metric::load;
  const bool both = section.direction == Direction::bi || stores;
  const auto window = static_cast<std::uint64_t>(section.window);
  Workload workload{.name = section.name,
                    .messages = {window, both ? window : 0},
                    .divisor = stores  ? 2
                               : loads ? static_cast<double>(section.bytes) / sizeof(std::uint64_t)
                                       : 1,
                    .pass_counts = stores || loads ? std::uint64_t{0} : 3,  // their kernels have one place a direction
                    .limits = quick ? quick_limits : usual_limits};
  if (!stores) workload.window = Window{section.window, section.direction};
  // A GPU has memory for whole windows, and is quick to write and compare them.
  if (section.ends == Ends::gpus && !quick) workload.pass_bytes = section.bytes * 2 * window;
  if (section.metric == Metric::issue || section.metric == Metric::enqueue) {
    workload.max_counts = section.peer_access && !quick ? max_enqueued : max_enqueued_staged;
    if (quick && (section.metric == Metric::enqueue || !section.peer_access)) workload.max_counts = max_enqueued_quick;
  }
  return workload;
}

Json gpus_record(const std::vector<gpu::Device>& devices) {
  Json found = Json::array();
  Json access = Json::array();
  for (const auto& device : devices) {
    found.push_back(to_json(device));
    Json row = Json::array();
    for (const auto& other : devices) {
      row.push_back(device.index == other.index || gpu::can_access_peer(device.index, other.index));
    }
    access.push_back(row);
  }
  return {{"record", "gpu_matrix_gpus"},
          {"version", record_version},
          {"devices", found},
          {"can_access", access},
          {"reason", nullptr}};
}

struct CellOutcome {
  const char* status;
  std::string reason;
};

// The GPUs of this machine, numbered in the order of the plan, and the links between them, all in this process.
class Measurement {
 public:
  // Makes buffers for the messages of all sections, or for shorter ones if there is no room. They have room for a pass
  // where they then take at most half of what is free.
  Measurement(const Run& run, const GpuMatrixOptions& options, const std::vector<Section>& sections)
      : run_(run), options_(options), timeout_(std::min(max_timeout_s, run.plan.watchdog_s / 2)) {
    const std::vector<int> numbers = devices_of(run.job, options);
    for (const int device : numbers) devices_.push_back(gpu::describe(device));
    for (const auto& section : sections) {
      const std::uint64_t bytes = std::min(section.bytes, options.largest_bytes);
      const std::uint64_t messages = options.quick ? 2 * 2 : 2 * static_cast<std::uint64_t>(section.window);
      capacity_ = std::max(capacity_, bytes / page_bytes * page_bytes);
      room_bytes_ = std::max(room_bytes_, messages * pass_stride(bytes));
    }
    const std::uint64_t least_free_bytes = std::ranges::min(for_each_device(numbers, free_bytes));
    while (capacity_ > min_bytes && buffers_of_a_gpu * (capacity_ + around_bytes) > least_free_bytes) {
      capacity_ = std::max(capacity_ / 2 / page_bytes * page_bytes, min_bytes);
    }
    room_bytes_ = std::min(room_bytes_, least_free_bytes / 2 / buffers_of_a_gpu) / page_bytes * page_bytes;
    room_bytes_ = std::max(capacity_, room_bytes_);
    gpus_ = for_each_device(numbers, [this](int device) { return make_endpoint(device, room_bytes_); });
    run.records.write(gpus_record(devices_));
  }

  // Memory that a hung link may still use is not freed, because freeing would wait for the link.
  ~Measurement() {
    if (!hung_) return;
    for (auto& each : gpus_) static_cast<void>(each.release());
  }

  void measure(const Section& section) {
    if (section.peer_access && !access_given_) give_access();
    const Workload workload = workload_of(section, options_.quick);
    // Cells within a GPU share their calibration, and so do cells between two GPUs.
    const std::string name = section.name;
    const std::array names{name + " within a GPU", name};
    Sampler sampler(control_, run_.plan.sampling, workload, run_.watchdog);
    const bool with_host = section.ends != Ends::gpus;  // one row, with the host in the place of the first
    for (int first = 0; first < (with_host ? 1 : gpus()); ++first) {
      std::vector<Json> cells;
      for (int second = 0; second < gpus(); ++second) {
        const int end = with_host ? second : first;
        cells.push_back(cell(section, sampler, names[end == second && !with_host ? 0 : 1], end, second));
      }
      write(section, with_host ? Json(nullptr) : Json(device(first).uuid), cells);
    }
  }

 private:
  [[nodiscard]] int gpus() const { return static_cast<int>(devices_.size()); }
  [[nodiscard]] const gpu::Device& device(int end) const { return devices_[static_cast<std::size_t>(end)]; }
  [[nodiscard]] std::unique_ptr<GpuEndpoint>& endpoint(int end) { return gpus_[static_cast<std::size_t>(end)]; }
  [[nodiscard]] std::uint64_t bytes_of(const Section& section) const {
    return section.metric == Metric::bandwidth ? std::min(section.bytes, capacity_) : section.bytes;
  }

  // Enables peer access between all pairs that support it. GpuLink::peers() tells whether CUDA refused.
  void give_access() {
    access_given_ = true;
    for (int first = 0; first < gpus(); ++first) {
      gpu::select(device(first).index);
      for (int second = 0; second < gpus(); ++second) {
        if (first == second || !gpu::can_access_peer(device(first).index, device(second).index)) continue;
        if (gpu::enable_peer_access(device(second).index)) access_.insert({first, second});
      }
    }
  }

  // The link of a cell. If one end is the host, `second` is ignored.
  std::unique_ptr<GpuLink> link(const Section& section, int first, int second, bool broken) {
    if (section.ends != Ends::gpus) return make_link(setup_with_host(section, first));
    const bool peers = first == second || (access_.contains({first, second}) && access_.contains({second, first}));
    LinkSetup setup{section, {route(section, first, second, 0, peers)}, peers, timeout_, room_bytes_};
    if (section.direction == Direction::bi || section.metric == Metric::store) {
      setup.routes.push_back(route(section, second, first, 1, peers));
    }
    setup.hangs = broken && section.fault == Fault::hang;
    return make_link(std::move(setup));
  }

  // Between the host and one GPU, which moves the data, and the other GPUs if they do the same meanwhile.
  LinkSetup setup_with_host(const Section& section, int timed) {
    const bool to_gpu = section.ends == Ends::host_to_gpu || section.ends == Ends::host_to_all_gpus;
    LinkSetup setup{section, {}, false, timeout_, std::min(bytes_of_pass(section.bytes), room_bytes_)};
    for (int i = 0; i < (uses_all(section.ends) ? gpus() : 1); ++i) {
      const int end = (timed + i) % gpus();
      const GpuEndpoint& gpu = *endpoint(end);
      const Binding near(allowed_cpus_near(device(end).pci));
      for (std::size_t number = 0; number < (section.direction == Direction::bi ? 2U : 1U); ++number) {
        const bool up = to_gpu == (number == 0);
        setup.hosts.push_back(std::make_unique<const HostEnd>(gpu.device, setup.room_bytes));
        const Location on_host = setup.hosts.back()->location();
        const auto& buffers = gpu.buffers[number];
        const Location on_gpu{gpu.memories[number].get(), up ? buffers.recv : buffers.send, gpu.device};
        setup.routes.push_back({.from = up ? on_host : on_gpu,
                                .to = up ? on_gpu : on_host,
                                .driver = &gpu,
                                .number = number,
                                .timed = i == 0});
      }
    }
    return setup;
  }

  // The first GPU moves the data: it writes to the second one, or reads from it.
  Route route(const Section& section, int first, int second, std::size_t number, bool peers) {
    const GpuEndpoint& driver = *endpoint(first);
    const GpuEndpoint& from = section.operation == AccessOperation::write ? driver : *endpoint(second);
    const GpuEndpoint& to = section.operation == AccessOperation::write ? *endpoint(second) : driver;
    const Location arrival{to.memories[number].get(), to.buffers[number].recv, to.device};
    Route made{.from = {from.memories[number].get(), from.buffers[number].send, from.device},
               .to = arrival,
               .driver = &driver,
               .number = number};
    if (peers && first != second) made.over_link = Location{from.memories[number].get(), arrival.at, from.device};
    return made;
  }

  // The error that makes CUDA unusable for the rest of this process; empty if there is none.
  std::string cuda_error() const {
    for (const auto& each : devices_) {
      const std::string error = gpu::device_error(each.index);
      if (!error.empty()) return error;
    }
    return {};
  }

  // After a link hung: abandons the streams and buffers of its GPUs, and makes new ones.
  void renew(std::set<int> ends, bool all) {
    hung_ = true;
    for (int end = 0; all && end < gpus(); ++end) ends.insert(end);
    for (const int end : ends) {
      static_cast<void>(endpoint(end).release());
      endpoint(end) = make_endpoint(device(end).index, room_bytes_);
    }
  }

  Json cell(const Section& section, Sampler& sampler, const std::string& name, int first, int second) {
    Series series;
    series.name = name;
    series.memory = MemoryKind::device;
    series.view.bytes = bytes_of(section);
    Json peers = nullptr;
    std::optional<CellOutcome> problem = known_problem(first, second);
    if (!problem) problem = attempt(section, sampler, series, first, second, peers);
    if (problem) series.skipped = problem->reason;
    Json record = {{"gpu", device(second).uuid}, {"peer_access", peers}};
    record.update(matrix_cell(series, options_.samples));
    if (problem) record["status"] = problem->status;
    return record;
  }

  std::optional<CellOutcome> known_problem(int first, int second) {
    if (budget_left_s(run_.plan, run_.records) < 0) return CellOutcome{"skipped", budget_reason};
    if (!lost_.empty()) return CellOutcome{"skipped", lost_};
    for (const int end : {first, second}) {
      if (hung_pairs_[end].size() < max_hung_pairs) continue;
      return CellOutcome{"skipped", "one of these two GPUs hung with several others in earlier cells"};
    }
    if (hung_pairs_[first].contains(second))
      return CellOutcome{"skipped", "a copy or kernel of this pair hung in an earlier cell"};
    return std::nullopt;
  }

  // Measures the cell. An error affects only this cell.
  std::optional<CellOutcome> attempt(const Section& section, Sampler& sampler, Series& series, int first, int second,
                                     Json& peers) {
    const bool with_host = section.ends != Ends::gpus;
    const bool broken = section.fault != Fault::none && second == gpus() - 1 && (with_host || first == 0);
    std::unique_ptr<GpuLink> link;
    try {
      const Binding near(
          allowed_cpus_near(device(first).pci));  // all rows have the same way to the GPU that moves data
      link = this->link(section, first, second, broken);
      if (!with_host) peers = link->peers();
      if (!with_host && section.engine == Engine::sm && !link->peers()) {
        return CellOutcome{"skipped",
                           "there is no peer access between the two: no kernel of one can access the other's memory"};
      }
      control_.between(first, second);
      series.driver = link.get();
      const auto memory = broken ? make_memory(MemoryKind::device) : nullptr;
      FaultyDriver faulty(*link, section.fault, memory.get(), {});
      if (broken) series.driver = &faulty;
      series.verifier = link.get();
      series.verify = run_.plan.verify;
      const Buffers buffers = link->buffers();
      series.view.send = buffers.send;
      series.view.recv = buffers.recv;
      series.buffer_bytes = buffers.capacity;
      std::vector<Series> alone{series};
      sampler.measure(alone);
      series = alone.front();
      series.driver = nullptr;
      series.verifier = nullptr;
      if (!series.mismatch) return std::nullopt;
      return CellOutcome{"failed", link->complaint()};
    } catch (const HungError& stuck) {
      static_cast<void>(link.release());  // its memory is still in use: freeing it would never return
      hung_pairs_[first].insert(second);
      hung_pairs_[second].insert(first);
      try {
        renew({first, second}, uses_all(section.ends));
      } catch (const std::runtime_error& error) {
        lost_ = std::string("cannot allocate new buffers after a cell hung: ") + error.what();
      }
      return CellOutcome{"failed", stuck.what()};
    } catch (const std::runtime_error& error) {
      lost_ = cuda_error();
      if (!lost_.empty()) {
        static_cast<void>(link.release());
        lost_ = "an earlier cell left CUDA unusable in this process: " + lost_;
      }
      return CellOutcome{"failed", error.what()};
    }
  }

  void write(const Section& section, const Json& row, const std::vector<Json>& cells) {
    write_row(run_.records,
              {{"record", "gpu_matrix"},
               {"version", record_version},
               {"section", section.name},
               {"metric", name_of(section.metric)},
               {"engine", name_of(section.engine)},
               {"operation", name_of(section.operation)},
               {"direction", volley::name_of(section.direction)},
               {"ends", name_of(section.ends)},
               {"peer_access", section.peer_access},
               {"size_bytes", bytes_of(section)},
               {"window", section.window},
               {"gpu", row}},
              cells);
  }

  const Run& run_;
  const GpuMatrixOptions& options_;
  const Seconds timeout_;               // of a link that makes no progress
  std::uint64_t capacity_ = min_bytes;  // of a message
  std::uint64_t room_bytes_ = 0;        // of a buffer
  std::vector<gpu::Device> devices_;
  std::vector<std::unique_ptr<GpuEndpoint>> gpus_;
  bool access_given_ = false;
  std::set<std::pair<int, int>> access_;
  LocalControl control_{0, 0};
  std::string lost_;
  bool hung_ = false;                        // a link
  std::map<int, std::set<int>> hung_pairs_;  // for each GPU: those that it hung with
};

}  // namespace

Exit measure(const Run& run, const GpuMatrixOptions& options) {
  run.watchdog.enter("making the GPUs ready");
  const std::vector<Section> chosen = sections_of(options);
  Measurement measurement(run, options, chosen);
  for (const auto& section : chosen) measurement.measure(section);
  return Exit::good;
}

}  // namespace volley::gpu_matrix
