#include "matrices.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <numeric>
#include <set>

#include "../measure/sampler.hpp"
#include "../record/facts.hpp"
#include "../record/points.hpp"
#include "machine.hpp"

namespace volley {

namespace {

using node::Ends;
using node::Figure;
using node::Section;

// A batch of small copies is enqueued behind a kernel that holds the stream. It must fit into the driver's queue, which
// takes about a thousand; where the host stages them, each copy is several.
constexpr std::uint64_t most_enqueued = 256;
constexpr std::uint64_t most_enqueued_staged = 100;
// In a hurry: what the host's time for one is told from, and that of a copy which the host stages.
constexpr std::uint64_t most_enqueued_quick = 40;
// Messages are many times as large as a cache of a GPU: where a window takes longer than this, one stands for the one
// that would warm the next.
constexpr Pace usual_pace{.lasting_exchange_s = 8e-3};
// For an answer as soon as the CUDA sample has one: six samples of most cells.
constexpr Pace quick_pace{.sample_s = 0.2e-3,
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
constexpr double most_patience_s = 10;

std::vector<int> devices_of(const Job& job, const Plan& plan) {
  if (!plan.node.gpus.empty()) return plan.node.gpus;
  std::vector<int> all(static_cast<std::size_t>(job.gpus.devices));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// In the order of the table.
std::vector<Section> sections_of(const Plan& plan) {
  std::vector<Section> chosen;
  for (const auto& section : node::sections()) {
    const auto& asked = plan.node.sections;
    if (std::find(asked.begin(), asked.end(), section.name) == asked.end()) continue;
    chosen.push_back(plan.node.quick ? node::quick(section) : section);
  }
  return chosen;
}

double parts_of(const Section& section) {
  if (section.figure == Figure::store) return 2;
  if (section.figure == Figure::load) return static_cast<double>(section.bytes) / sizeof(std::uint64_t);
  return 1;
}

Exercise exercise_of(const Section& section, bool quick) {
  const bool both = section.direction == Direction::bi || section.figure == Figure::store;
  const auto window = static_cast<std::uint64_t>(section.window);
  Exercise exercise{.name = section.name,
                    .run = {},
                    .messages = {window, both ? window : 0},
                    .parts = parts_of(section),
                    .second_times = false,
                    .one_buffer = false,
                    .pace = quick ? quick_pace : usual_pace};
  if (section.figure == Figure::store) {
    exercise.run = [](Exchanger& link, const View& view, std::uint64_t count) { link.pingpong(view, count); };
  } else {
    const Stream stream{.window = section.window, .direction = section.direction};
    exercise.run = [stream](Exchanger& link, const View& view, std::uint64_t count) {
      link.stream(view, count, stream);
    };
  }
  if (section.figure == Figure::issue || section.figure == Figure::enqueue) {
    exercise.most_counts = section.peer_access && !quick ? most_enqueued : most_enqueued_staged;
    if (quick && (section.figure == Figure::enqueue || !section.peer_access))
      exercise.most_counts = most_enqueued_quick;
  }
  return exercise;
}

// Why a cell is not tried, or what became of it.
struct Trouble {
  const char* status;
  std::string reason;
};

class Matrices {
 public:
  Matrices(const Plan& plan, std::vector<gpu::Device> devices, std::unique_ptr<node::Machine> machine, Records& records,
           Watchdog& watchdog)
      : plan_(plan),
        devices_(std::move(devices)),
        machine_(std::move(machine)),
        records_(records),
        watchdog_(watchdog) {
    pair_.peer = pair_.self;  // this process has both ends
  }

  void measure(const Section& section) {
    if (section.peer_access && !access_given_) {
      machine_->give_access();
      access_given_ = true;
    }
    const Exercise exercise = exercise_of(section, plan_.node.quick);
    // What one cell has shown about how long its messages take holds for the next, within a GPU and between two apart.
    const auto entry = [&](const char* summary) {
      return TransportEntry{section.name, summary, false, MemoryKind::device, section.fault != nullptr, nullptr};
    };
    const std::array entries{entry("within a GPU"), entry("between two ends")};
    Sampler sampler(pair_, agreement_, plan_, exercise, watchdog_);
    if (section.ends != Ends::gpus) return host_row(section, sampler, entries[1]);
    for (int first = 0; first < count(); ++first) {
      Json cells = Json::array();
      for (int second = 0; second < count(); ++second) {
        cells.push_back(cell(section, sampler, entries[first == second ? 0 : 1], first, second));
      }
      write(section, uuid(first), cells);
    }
  }

 private:
  [[nodiscard]] int count() const { return static_cast<int>(devices_.size()); }
  [[nodiscard]] const std::string& uuid(int end) const { return devices_[static_cast<std::size_t>(end)].uuid; }
  [[nodiscard]] std::uint64_t bytes_of(const Section& section) const {
    return section.figure == Figure::bandwidth ? std::min(section.bytes, machine_->capacity()) : section.bytes;
  }

  void host_row(const Section& section, Sampler& sampler, const TransportEntry& entry) {
    Json cells = Json::array();
    for (int end = 0; end < count(); ++end) cells.push_back(cell(section, sampler, entry, end, end));
    write(section, nullptr, cells);
  }

  Json cell(const Section& section, Sampler& sampler, const TransportEntry& entry, int first, int second) {
    Point point;
    point.entry = &entry;
    point.view.bytes = bytes_of(section);
    Json peers = nullptr;
    std::optional<Trouble> trouble = beforehand(first, second);
    if (!trouble) trouble = attempt(section, sampler, point, first, second, peers);
    if (trouble) point.skipped = trouble->reason;
    Json record = matrix_cell(point, second, plan_.node.samples);
    if (trouble) record["status"] = trouble->status;
    for (const char* key : {"rank", "mismatch"}) record.erase(key);
    record["gpu"] = uuid(second);
    record["peer_access"] = peers;
    return record;
  }

  std::optional<Trouble> beforehand(int first, int second) {
    if (budget_used(plan_, records_)) return Trouble{"skipped", budget_reason(plan_)};
    if (!lost_.empty()) return Trouble{"skipped", lost_};
    const bool quick = plan_.node.quick;
    for (const int end : {first, second}) {
      if (stuck_[end].size() < (quick ? most_stuck_quick : most_stuck)) continue;
      return Trouble{"skipped", quick ? "one of the two GPUs was stuck before; without --format cuda-samples its other "
                                        "links are tried"
                                      : "one of the two GPUs was stuck with several others before"};
    }
    if (stuck_[first].contains(second)) return Trouble{"skipped", "the two were stuck before"};
    return std::nullopt;
  }

  // Measures the cell. What goes wrong between two ends is the matter of this cell: the others go on.
  std::optional<Trouble> attempt(const Section& section, Sampler& sampler, Point& point, int first, int second,
                                 Json& peers) {
    const bool broken = section.fault != nullptr && first == 0 && second == count() - 1;
    std::unique_ptr<node::Link> link;
    try {
      link = machine_->link(section, first, second, broken);
      if (section.ends == Ends::gpus) peers = link->peers();
      if (section.mover == node::Mover::kernel && !link->peers()) {
        return Trouble{"skipped",
                       "there is no peer access between the two: no kernel of one reaches the other's memory"};
      }
      pair_.ranks = {first, second};
      point.transport = link.get();
      point.memory = plan_.verify ? link.get() : nullptr;
      std::vector<Point> alone{point};
      sampler.measure(alone);
      point = alone.front();
      point.transport = nullptr;
      point.memory = nullptr;
      if (!point.mismatch) return std::nullopt;
      return Trouble{"failed", link->complaint()};
    } catch (const node::Stuck& stuck) {
      static_cast<void>(link.release());  // what it holds is in use: giving it back would wait for ever
      stuck_[first].insert(second);
      stuck_[second].insert(first);
      machine_->renew(first, second);
      return Trouble{"failed", stuck.what()};
    } catch (const std::runtime_error& error) {
      lost_ = machine_->lost();
      if (!lost_.empty()) {
        static_cast<void>(link.release());
        lost_ = "an earlier cell left CUDA unusable for this process: " + lost_;
      }
      return Trouble{"failed", error.what()};
    }
  }

  void write(const Section& section, const Json& row, const Json& cells) {
    for (const auto& each : cells) records_.count(each.at("status"));
    records_.write({{"record", "node_row"},
                    {"version", record_version},
                    {"section", section.name},
                    {"figure", name_of(section.figure)},
                    {"mover", name_of(section.mover)},
                    {"way", name_of(section.way)},
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
  std::unique_ptr<node::Machine> machine_;
  Records& records_;
  Watchdog& watchdog_;
  Endpoints pair_;
  AgreementAlone agreement_;
  bool access_given_ = false;
  std::string lost_;
  std::map<int, std::set<int>> stuck_;  // of each end, with whom
};

Json node_record(const std::vector<gpu::Device>& devices, const node::Machine* machine, const std::string& reason) {
  Json found = Json::array();
  Json access = Json::array();
  for (const auto& device : devices) found.push_back(to_json(device));
  const int count = static_cast<int>(devices.size());
  for (int first = 0; machine != nullptr && first < count; ++first) {
    Json row = Json::array();
    for (int second = 0; second < count; ++second) {
      row.push_back(first == second || machine->can_access(first, second));
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
    throw Refusal("the plan asks for GPU " + std::to_string(device) + ", but CUDA sees " +
                  std::to_string(job.gpus.devices) + " here, counted from 0; CUDA_VISIBLE_DEVICES may hide others");
  }
}

Exit run_node(const Job& job, const Plan& plan, Records& records, Watchdog& watchdog) {
  if (job.gpus.devices == 0) {
    records.write(node_record({}, nullptr, job.gpus.reason));
    return Exit::unable;
  }
  watchdog.enter("making the GPUs ready");
  std::vector<gpu::Device> devices;
  for (const int device : devices_of(job, plan)) devices.push_back(gpu::describe(device));
  const std::vector<Section> sections = sections_of(plan);
  std::uint64_t largest = 0;
  for (const auto& section : sections) largest = std::max(largest, section.bytes);
  const std::chrono::duration<double> patience(std::min(most_patience_s, plan.watchdog_s / 2));
  auto machine = node::make_machine(devices_of(job, plan), std::min(largest, plan.node.largest_bytes), patience);
  records.write(node_record(devices, machine.get(), ""));
  Matrices matrices(plan, std::move(devices), std::move(machine), records, watchdog);
  for (const auto& section : sections) matrices.measure(section);
  return records.failed() ? Exit::failed : Exit::good;
}

}  // namespace volley
