// The benchmark `gpu_matrix`: every ordered pair of this machine's GPUs, all owned by this process. Writes a record for
// the GPUs, then one for each row of each section.
#include <algorithm>
#include <chrono>
#include <map>
#include <numeric>
#include <set>

#include "benchmark/benchmark.hpp"
#include "benchmark/gpu_matrix/gpu_set.hpp"
#include "benchmark/series_record.hpp"
#include "group/run_record.hpp"
#include "host/placement.hpp"
#include "measure/memory.hpp"
#include "measure/sampler.hpp"

namespace volley::gpu_matrix {

namespace {

// A batch of small copies is enqueued behind a kernel that holds the stream. It must fit into the driver's queue,
// which takes about a thousand; where the host stages them, each copy is several.
constexpr std::uint64_t max_enqueued = 256;
constexpr std::uint64_t max_enqueued_staged = 100;
// In quick mode: of the calls that enqueue, and of copies that the host stages.
constexpr std::uint64_t max_enqueued_quick = 40;
// Messages are many times as large as a GPU's caches: if a window takes longer than this, no untimed exchange has to
// warm them.
constexpr SamplingLimits usual_limits{.long_exchange_s = 8e-3};
// Quick mode takes about as long as the CUDA sample.
constexpr SamplingLimits quick_limits{.sample_s = 0.2e-3,
                                      .empty_samples = 9,
                                      .visit_s = 0,
                                      .calibration_s = 0,
                                      .calibration_batches = 2,
                                      .long_exchange_s = 0.2e-3};
// A GPU that hung with so many others is not measured any more.
constexpr std::size_t max_hung_pairs = 2;
// A link times out before the watchdog ends the process.
constexpr double max_timeout_s = 10;

// The part of the plan.
struct GpuMatrixOptions {
  std::vector<std::string> sections;                       // see section.hpp
  std::vector<int> gpus;                                   // CUDA's numbers; empty: all
  std::uint64_t largest_bytes = std::uint64_t{512} << 20;  // of a message of any section
  bool quick = false;                                      // less data, fewer samples
  bool samples = false;                                    // cells keep every sample
};

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

double divisor_of(const Section& section) {
  if (section.metric == Metric::store) return 2;
  if (section.metric == Metric::load) return static_cast<double>(section.bytes) / sizeof(std::uint64_t);
  return 1;
}

// The kernels of loads and stores have one place for each direction.
std::uint64_t pass_counts_of(Metric metric) { return metric == Metric::store || metric == Metric::load ? 0 : 3; }

Workload workload_of(const Section& section, bool quick) {
  const bool both = section.direction == Direction::bi || section.metric == Metric::store;
  const auto window = static_cast<std::uint64_t>(section.window);
  Workload workload{.name = section.name,
                    .run = {},
                    .messages = {window, both ? window : 0},
                    .divisor = divisor_of(section),
                    .second_times = false,
                    .one_buffer = false,
                    .pass_counts = pass_counts_of(section.metric),
                    .limits = quick ? quick_limits : usual_limits};
  if (section.metric == Metric::store) {
    workload.run = [](Driver& link, const View& view, std::uint64_t count, std::uint64_t) {
      link.round_trips(view, count);
    };
  } else {
    workload.run = [direction = section.direction](Driver& link, const View& view, std::uint64_t count,
                                                   std::uint64_t in_flight) {
      link.windows(view, count, {static_cast<int>(in_flight), direction});
    };
  }
  // A GPU has memory for whole windows, and is quick to write and compare them.
  if (section.ends == Ends::gpus && !quick) workload.pass_bytes = section.bytes * 2 * window;
  if (section.metric == Metric::issue || section.metric == Metric::enqueue) {
    workload.max_counts = section.peer_access && !quick ? max_enqueued : max_enqueued_staged;
    if (quick && (section.metric == Metric::enqueue || !section.peer_access)) workload.max_counts = max_enqueued_quick;
  }
  return workload;
}

// Why a cell has no result.
struct CellOutcome {
  const char* status;
  std::string reason;
};

class Measurement {
 public:
  Measurement(const Run& run, const GpuMatrixOptions& options, std::vector<gpu::Device> devices,
              std::unique_ptr<GpuSet> gpus)
      : run_(run), options_(options), devices_(std::move(devices)), gpus_(std::move(gpus)) {}

  void measure(const Section& section) {
    if (section.peer_access && !access_given_) {
      gpus_->give_access();
      access_given_ = true;
    }
    const Workload workload = workload_of(section, options_.quick);
    // Cells within a GPU share their calibration, and so do cells between two GPUs.
    const std::string name = section.name;
    const std::array names{name + " within a GPU", name};
    Sampler sampler(control_, run_.plan.sampling, workload, run_.watchdog);
    if (section.ends != Ends::gpus) return host_row(section, sampler, names[1]);
    for (int first = 0; first < count(); ++first) {
      Json cells = Json::array();
      for (int second = 0; second < count(); ++second) {
        cells.push_back(cell(section, sampler, names[first == second ? 0 : 1], first, second));
      }
      write(section, uuid(first), cells);
    }
  }

 private:
  [[nodiscard]] int count() const { return static_cast<int>(devices_.size()); }
  [[nodiscard]] const std::string& uuid(int end) const { return devices_[static_cast<std::size_t>(end)].uuid; }
  [[nodiscard]] std::uint64_t bytes_of(const Section& section) const {
    return section.metric == Metric::bandwidth ? std::min(section.bytes, gpus_->capacity()) : section.bytes;
  }

  void host_row(const Section& section, Sampler& sampler, const std::string& name) {
    Json cells = Json::array();
    for (int end = 0; end < count(); ++end) cells.push_back(cell(section, sampler, name, end, end));
    write(section, nullptr, cells);
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
    Json record = {{"gpu", uuid(second)}, {"peer_access", peers}};
    record.update(matrix_cell(series, options_.samples));
    if (problem) record["status"] = problem->status;
    return record;
  }

  // Why the cell is not tried.
  std::optional<CellOutcome> known_problem(int first, int second) {
    if (budget_used(run_.plan, run_.records)) return CellOutcome{"skipped", budget_reason(run_.plan)};
    if (!lost_.empty()) return CellOutcome{"skipped", lost_};
    for (const int end : {first, second}) {
      if (hung_pairs_[end].size() < max_hung_pairs) continue;
      return CellOutcome{"skipped", "one of these two GPUs hung with several others in earlier cells"};
    }
    if (hung_pairs_[first].contains(second))
      return CellOutcome{"skipped", "a copy or kernel between these two GPUs hung in an earlier cell"};
    return std::nullopt;
  }

  // Measures the cell. An error affects only this cell.
  std::optional<CellOutcome> attempt(const Section& section, Sampler& sampler, Series& series, int first, int second,
                                     Json& peers) {
    const bool broken = section.fault != Fault::none && first == 0 && second == count() - 1;
    std::unique_ptr<GpuLink> link;
    try {
      link = gpus_->link(section, first, second, broken);
      if (section.ends == Ends::gpus) peers = link->peers();
      if (section.engine == Engine::sm && !link->peers()) {
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
      bind_to_cpus(cpus_);  // a link to host memory had bound this thread near its GPU
      try {
        gpus_->renew(first, second);
      } catch (const std::runtime_error& error) {
        lost_ = std::string("buffers in place of those of a cell that hung cannot be allocated: ") + error.what();
      }
      return CellOutcome{"failed", stuck.what()};
    } catch (const std::runtime_error& error) {
      lost_ = gpus_->lost();
      if (!lost_.empty()) {
        static_cast<void>(link.release());
        lost_ = "an earlier cell left CUDA unusable for this process: " + lost_;
      }
      return CellOutcome{"failed", error.what()};
    }
  }

  void write(const Section& section, const Json& row, const Json& cells) {
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
  std::vector<gpu::Device> devices_;
  std::unique_ptr<GpuSet> gpus_;
  LocalControl control_{0, 0};
  bool access_given_ = false;
  const std::vector<int> cpus_ = allowed_cpus();
  std::string lost_;
  std::map<int, std::set<int>> hung_pairs_;  // for each GPU: those that it hung with
};

Json gpus_record(const std::vector<gpu::Device>& devices, const GpuSet* gpus, const std::string& reason) {
  Json found = Json::array();
  Json access = Json::array();
  for (const auto& device : devices) found.push_back(to_json(device));
  const int count = static_cast<int>(devices.size());
  for (int first = 0; gpus != nullptr && first < count; ++first) {
    Json row = Json::array();
    for (int second = 0; second < count; ++second) {
      row.push_back(first == second || gpus->can_access(first, second));
    }
    access.push_back(row);
  }
  return {{"record", "gpu_matrix_gpus"},
          {"version", record_version},
          {"devices", found},
          {"can_access", access},
          {"reason", or_null(reason)}};
}

class GpuMatrix final : public Benchmark {
 public:
  void read(PlanObject& options, const Plan& plan) override {
    static_cast<void>(options.required("sections", "a list"));
    options.names("sections", options_.sections, "a section's name");
    options.integers("gpus", options_.gpus, "the number of a GPU", 0);
    options.integer("largest_bytes", options_.largest_bytes, std::uint64_t{64} << 10, std::uint64_t{1} << 62);
    options.boolean("quick", options_.quick);
    options.boolean("samples", options_.samples);
    if (plan.world_size != 1) {
      options.complain_of_plan("world_size", "one process has all GPUs, found " + std::to_string(plan.world_size));
    }
    check_sections(options);
    for (auto each = options_.gpus.begin(); each != options_.gpus.end(); ++each) {
      if (std::find(options_.gpus.begin(), each, *each) == each) continue;
      options.complain("gpus", "GPU " + std::to_string(*each) + " is named twice");
    }
  }

  void check(const Job& job) const override {
    for (const int device : options_.gpus) {
      if (job.gpus.devices == 0 || device < job.gpus.devices) continue;
      throw UsageError("the plan asks for GPU " + std::to_string(device) + ", but CUDA sees " +
                       std::to_string(job.gpus.devices) +
                       " here, counted from 0; CUDA_VISIBLE_DEVICES may hide others");
    }
  }

  Exit run(const Run& run) override {
    if (run.job.gpus.devices == 0) {
      run.records.write(gpus_record({}, nullptr, run.job.gpus.reason));
      return Exit::unsupported;
    }
    run.watchdog.enter("making the GPUs ready");
    const std::vector<int> numbers = devices_of(run.job, options_);
    std::vector<gpu::Device> devices;
    for (const int device : numbers) devices.push_back(gpu::describe(device));
    const std::vector<Section> chosen = sections_of(options_);
    std::uint64_t largest = 0;
    for (const auto& section : chosen) largest = std::max(largest, section.bytes);
    const std::chrono::duration<double> timeout(std::min(max_timeout_s, run.plan.watchdog_s / 2));
    std::uint64_t room_bytes = 0;
    for (const auto& section : chosen) {
      const std::uint64_t bytes = std::min(section.bytes, options_.largest_bytes);
      const std::uint64_t messages = options_.quick ? 2 * 2 : 2 * static_cast<std::uint64_t>(section.window);
      room_bytes = std::max(room_bytes, messages * pass_stride(bytes));
    }
    auto gpus = make_gpu_set(numbers, std::min(largest, options_.largest_bytes), room_bytes, timeout);
    run.records.write(gpus_record(devices, gpus.get(), ""));
    Measurement measurement(run, options_, std::move(devices), std::move(gpus));
    for (const auto& section : chosen) measurement.measure(section);
    return Exit::good;
  }

 private:
  void check_sections(PlanObject& options) const {
    if (options_.sections.empty()) options.complain("sections", "expected at least one section");
    std::vector<std::string> names;
    for (const auto& section : sections()) names.emplace_back(section.name);
    for (std::size_t i = 0; i < options_.sections.size(); ++i) {
      if (find_section(options_.sections[i]) != nullptr) continue;
      options.complain(PlanObject::place("sections", i),
                       "there is no section `" + options_.sections[i] + "`; there are " + joined(names));
    }
  }

  GpuMatrixOptions options_;
};

}  // namespace

}  // namespace volley::gpu_matrix

namespace volley {

std::unique_ptr<Benchmark> make_gpu_matrix() { return std::make_unique<gpu_matrix::GpuMatrix>(); }

}  // namespace volley
