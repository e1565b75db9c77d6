#include "benchmark/gpu_matrix/gpu_matrix.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <numeric>
#include <set>

#include "benchmark/gpu_matrix/gpu_set.hpp"
#include "benchmark/series_records.hpp"
#include "group/facts.hpp"
#include "measure/sampler.hpp"

namespace volley {

namespace {

using gpu_matrix::Ends;
using gpu_matrix::Metric;
using gpu_matrix::Section;

// A batch of small copies is enqueued behind a kernel that holds the cuda_stream. It must fit into the driver's queue,
// which takes about a thousand; where the host stages them, each copy is several.
constexpr std::uint64_t most_enqueued = 256;
constexpr std::uint64_t most_enqueued_staged = 100;
// In a hurry: what the host's time for one is told from, and that of a copy which the host stages.
constexpr std::uint64_t most_enqueued_quick = 40;
// Messages are many times as large as a cache of a GPU: where a window takes longer than this, one stands for the one
// that would warm the next.
constexpr SamplingLimits usual_limits{.lasting_exchange_s = 8e-3};
// For an answer as soon as the CUDA sample has one: six samples of most cells.
constexpr SamplingLimits quick_limits{.sample_s = 0.2e-3,
                                      .empty_samples = 9,
                                      .visit_s = 0,
                                      .calibration_s = 0,
                                      .calibration_batches = 2,
                                      .lasting_exchange_s = 0.2e-3};
// A GPU that was stuck with so many others is left alone. In a hurry, where it has few queues, what is stuck may hold
// up all that it would start next.
constexpr std::size_t most_stuck = 2;
constexpr std::size_t most_stuck_quick = 1;
// Links are given up before the watchdog ends the process.
constexpr double most_timeout_s = 10;

std::vector<int> devices_of(const Job& job, const Plan& plan) {
  if (!plan.node.gpus.empty()) return plan.node.gpus;
  std::vector<int> all(static_cast<std::size_t>(job.gpus.devices));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// In the order of the table.
std::vector<Section> sections_of(const Plan& plan) {
  std::vector<Section> chosen;
  for (const auto& section : gpu_matrix::sections()) {
    const auto& asked = plan.node.sections;
    if (std::find(asked.begin(), asked.end(), section.name) == asked.end()) continue;
    chosen.push_back(plan.node.quick ? gpu_matrix::quick(section) : section);
  }
  return chosen;
}

double divisor_of(const Section& section) {
  if (section.metric == Metric::store) return 2;
  if (section.metric == Metric::load) return static_cast<double>(section.bytes) / sizeof(std::uint64_t);
  return 1;
}

Workload workload_of(const Section& section, bool quick) {
  const bool both = section.direction == Direction::bi || section.metric == Metric::store;
  const auto window = static_cast<std::uint64_t>(section.window);
  Workload workload{.name = section.name,
                    .run = {},
                    .messages = {window, both ? window : 0},
                    .divisor = divisor_of(section),
                    .second_times = false,
                    .one_buffer = false,
                    .limits = quick ? quick_limits : usual_limits};
  if (section.metric == Metric::store) {
    workload.run = [](Driver& link, const View& view, std::uint64_t count) { link.round_trips(view, count); };
  } else {
    const Window shape{.messages = section.window, .direction = section.direction};
    workload.run = [shape](Driver& link, const View& view, std::uint64_t count) { link.windows(view, count, shape); };
  }
  if (section.metric == Metric::issue || section.metric == Metric::enqueue) {
    workload.most_counts = section.peer_access && !quick ? most_enqueued : most_enqueued_staged;
    if (quick && (section.metric == Metric::enqueue || !section.peer_access))
      workload.most_counts = most_enqueued_quick;
  }
  return workload;
}

// Why a cell is not tried, or what became of it.
struct CellOutcome {
  const char* status;
  std::string reason;
};

class GpuMatrix {
 public:
  GpuMatrix(const Plan& plan, std::vector<gpu::Device> devices, std::unique_ptr<gpu_matrix::GpuSet> gpus,
            Records& records, Watchdog& watchdog)
      : plan_(plan), devices_(std::move(devices)), gpus_(std::move(gpus)), records_(records), watchdog_(watchdog) {}

  void measure(const Section& section) {
    if (section.peer_access && !access_given_) {
      gpus_->give_access();
      access_given_ = true;
    }
    const Workload workload = workload_of(section, plan_.node.quick);
    // What one cell has shown about how long its messages take holds for the next, within a GPU and between two apart.
    const std::string name = section.name;
    const std::array names{name + " within a GPU", name};
    Sampler sampler(control_, plan_.sampling, workload, watchdog_);
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
    std::optional<CellOutcome> trouble = beforehand(first, second);
    if (!trouble) trouble = attempt(section, sampler, series, first, second, peers);
    if (trouble) series.skipped = trouble->reason;
    Json record = matrix_cell(series, second, plan_.node.samples);
    if (trouble) record["status"] = trouble->status;
    for (const char* key : {"rank", "mismatch"}) record.erase(key);
    record["gpu"] = uuid(second);
    record["peer_access"] = peers;
    return record;
  }

  std::optional<CellOutcome> beforehand(int first, int second) {
    if (budget_used(plan_, records_)) return CellOutcome{"skipped", budget_reason(plan_)};
    if (!lost_.empty()) return CellOutcome{"skipped", lost_};
    const bool quick = plan_.node.quick;
    for (const int end : {first, second}) {
      if (stuck_[end].size() < (quick ? most_stuck_quick : most_stuck)) continue;
      return CellOutcome{"skipped",
                         quick ? "one of the two GPUs was stuck before; without --format cuda-samples its other "
                                 "links are tried"
                               : "one of the two GPUs was stuck with several others before"};
    }
    if (stuck_[first].contains(second)) return CellOutcome{"skipped", "the two were stuck before"};
    return std::nullopt;
  }

  // Measures the cell. What goes wrong between two ends is the matter of this cell: the others go on.
  std::optional<CellOutcome> attempt(const Section& section, Sampler& sampler, Series& series, int first, int second,
                                     Json& peers) {
    const bool broken = section.fault != nullptr && first == 0 && second == count() - 1;
    std::unique_ptr<gpu_matrix::GpuLink> link;
    try {
      link = gpus_->link(section, first, second, broken);
      if (section.ends == Ends::gpus) peers = link->peers();
      if (section.engine == gpu_matrix::Engine::kernel && !link->peers()) {
        return CellOutcome{"skipped",
                           "there is no peer access between the two: no kernel of one reaches the other's memory"};
      }
      control_.between(first, second);
      series.driver = link.get();
      series.verifier = plan_.verify ? link.get() : nullptr;
      std::vector<Series> alone{series};
      sampler.measure(alone);
      series = alone.front();
      series.driver = nullptr;
      series.verifier = nullptr;
      if (!series.mismatch) return std::nullopt;
      return CellOutcome{"failed", link->complaint()};
    } catch (const gpu_matrix::HungError& stuck) {
      static_cast<void>(link.release());  // what it holds is in use: giving it back would wait for ever
      stuck_[first].insert(second);
      stuck_[second].insert(first);
      gpus_->renew(first, second);
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
    for (const auto& each : cells) records_.count(each.at("status"));
    records_.write({{"record", "node_row"},
                    {"version", record_version},
                    {"section", section.name},
                    {"metric", name_of(section.metric)},
                    {"engine", name_of(section.engine)},
                    {"operation", name_of(section.operation)},
                    {"direction", name_of(section.direction)},
                    {"ends", name_of(section.ends)},
                    {"peer_access", section.peer_access},
                    {"size_bytes", bytes_of(section)},
                    {"window", section.window},
                    {"gpu", row},
                    {"cells", cells}});
  }

  const Plan& plan_;
  std::vector<gpu::Device> devices_;
  std::unique_ptr<gpu_matrix::GpuSet> gpus_;
  Records& records_;
  Watchdog& watchdog_;
  LocalControl control_{0, 0};
  bool access_given_ = false;
  std::string lost_;
  std::map<int, std::set<int>> stuck_;  // of each end, with whom
};

Json node_record(const std::vector<gpu::Device>& devices, const gpu_matrix::GpuSet* gpu_set,
                 const std::string& reason) {
  Json found = Json::array();
  Json access = Json::array();
  for (const auto& device : devices) found.push_back(to_json(device));
  const int count = static_cast<int>(devices.size());
  for (int first = 0; gpu_set != nullptr && first < count; ++first) {
    Json row = Json::array();
    for (int second = 0; second < count; ++second) {
      row.push_back(first == second || gpu_set->can_access(first, second));
    }
    access.push_back(row);
  }
  return {{"record", "node"},
          {"version", record_version},
          {"devices", found},
          {"can_access", access},
          {"reason", reason.empty() ? Json(nullptr) : Json(reason)}};
}

}  // namespace

void check_node(const Job& job, const Plan& plan) {
  for (const int device : plan.node.gpus) {
    if (job.gpus.devices == 0 || device < job.gpus.devices) continue;
    throw UsageError("the plan asks for GPU " + std::to_string(device) + ", but CUDA sees " +
                     std::to_string(job.gpus.devices) + " here, counted from 0; CUDA_VISIBLE_DEVICES may hide others");
  }
}

Exit run_node(const Job& job, const Plan& plan, Records& records, Watchdog& watchdog) {
  if (job.gpus.devices == 0) {
    records.write(node_record({}, nullptr, job.gpus.reason));
    return Exit::unsupported;
  }
  watchdog.enter("making the GPUs ready");
  std::vector<gpu::Device> devices;
  for (const int device : devices_of(job, plan)) devices.push_back(gpu::describe(device));
  const std::vector<Section> sections = sections_of(plan);
  std::uint64_t largest = 0;
  for (const auto& section : sections) largest = std::max(largest, section.bytes);
  const std::chrono::duration<double> timeout(std::min(most_timeout_s, plan.watchdog_s / 2));
  auto gpu_set = gpu_matrix::make_gpu_set(devices_of(job, plan), std::min(largest, plan.node.largest_bytes), timeout);
  records.write(node_record(devices, gpu_set.get(), ""));
  GpuMatrix matrices(plan, std::move(devices), std::move(gpu_set), records, watchdog);
  for (const auto& section : sections) matrices.measure(section);
  return records.failed() ? Exit::failed : Exit::good;
}

}  // namespace volley
