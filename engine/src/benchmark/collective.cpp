// The benchmark `collective`: operations among all ranks; seconds from the last rank's entry to the last rank's exit.
#include "benchmark/operations.hpp"
#include "benchmark/transport_set.hpp"
#include "group/group_control.hpp"
#include "measure/sampler.hpp"

namespace volley {
namespace {

struct Point {
  Collective collective;
  std::uint64_t size_bytes = 0;  // as asked for
  std::unique_ptr<CollectiveVerifier> verifier;
  std::unique_ptr<Driver> driver;
};

class CollectiveBenchmark final : public SweepBenchmark {
 public:
  void read(PlanObject& options, const Plan& plan) override {
    collective_ = true;
    options.sizes("sizes_bytes", sizes_bytes_);
    std::vector<std::pair<std::string, Element>> elements;
    for (const auto& traits : element_traits) elements.emplace_back(traits.name, static_cast<Element>(elements.size()));
    options.choice("element", element_, elements);
    options.choice("reduction", reduction_, reduction_names);
    operations_ = read_operations(options);
    check_ranks(options, plan, element_);
    read_cold_cache(options, plan, cold_caches_);
    options.integer("root", root_, 0);
    if (root_ >= plan.world_size) options.complain("root", "there is no rank " + std::to_string(root_));
    options.boolean("in_place", in_place_);
    if (in_place_ && cold_caches_) options.complain("in_place", "what is sent in place was written just before");
    if (in_place_ && plan.sampling.fixed && plan.sampling.iterations > 1) {
      options.complain("in_place", "a result replaces what the next operation would send: one iteration is possible");
    }
    options.integers("imbalance", imbalance_, "a length", 1);
    if (imbalance_.empty()) imbalance_ = {1, 1};
    const bool two = imbalance_.size() == 2 && std::ranges::max(imbalance_) <= most_imbalanced;
    if (!two) options.complain("imbalance", "expected two lengths from 1 to " + std::to_string(most_imbalanced));
  }

 private:
  static constexpr int most_imbalanced = 1000;

  [[nodiscard]] std::vector<std::uint64_t> opened_sizes() const override {
    return sizes_bytes_.empty() ? std::vector<std::uint64_t>{element_bytes} : sizes_bytes_;
  }

  void measure(const Run& run, const RankGroup& group, TransportSet& transports) override {
    Workload workload{.name = "operations", .messages = {1, 0}, .divisor = 1, .pass_counts = 4};  // all check
    if (in_place_) workload.max_counts = 1;
    GroupControl control(*run.context, group);
    Sampler sampler(control, run.plan.sampling, workload, run.watchdog);
    const auto has_barrier = std::find(operations_.begin(), operations_.end(), Operation::barrier) != operations_.end();
    if (has_barrier) measure_size(run, group, transports, control, sampler, 0, true, operations_);
    // To fill large buffers again for each visit of another operation would take longer than the visits.
    const std::size_t together = cold_caches_ ? 1 : std::max<std::size_t>(operations_.size(), 1);
    for (std::size_t i = 0; i < sizes_bytes_.size(); ++i) {
      for (std::size_t first = 0; first < operations_.size(); first += together) {
        const auto those = std::span(operations_).subspan(first, together);
        measure_size(run, group, transports, control, sampler, sizes_bytes_[i], i == 0, those);
      }
    }
  }

  // Operations of one size on all transports in turn; 0: the barriers. An operation of the first size is the first
  // of its kind: NCCL connects the ranks in it.
  void measure_size(const Run& run, const RankGroup& group, TransportSet& transports, GroupControl& control,
                    Sampler& sampler, std::uint64_t bytes, bool first, std::span<const Operation> those) const {
    const double left_s = time_left_s(group, run.plan, run.records);
    std::vector<Point> points;
    std::vector<Series> all;
    for (const auto operation : those) {
      if ((operation == Operation::barrier) != (bytes == 0)) continue;
      for (auto& candidate : transports.candidates()) {
        if (!candidate.listed) continue;
        Point& point = points.emplace_back();
        point.collective = collective_of(operation, element_, group);
        point.collective.reduction = reduction_;
        point.collective.root = root_;
        point.collective.in_place = in_place_;
        if (point.collective.traits().own_counts) std::ranges::copy(imbalance_, point.collective.imbalance.begin());
        point.size_bytes = bytes;
        all.push_back(series_of(point, candidate, transports, run.plan));
        all.back().fresh = first;
      }
    }
    control.compare_clocks();
    sampler.measure(all, left_s);
    const double clock_error_s = control.take_clock_error_s();
    for (std::size_t i = 0; i < all.size(); ++i) {
      run.watchdog.progress();
      run.records.write_point(record(points[i], all[i], group, clock_error_s));
    }
  }

  Series series_of(Point& point, const Candidate& candidate, const TransportSet& transports, const Plan& plan) const {
    const std::uint64_t bytes = point.collective.whole(point.size_bytes);
    Series series = transports.series(candidate, bytes, plan.verify);
    series.variant = std::string(" (") + name_of(point.collective.operation) + ")";
    point.driver = candidate.transport->collectives()->driver(point.collective);
    series.driver = point.driver.get();
    if (point.collective.operation == Operation::barrier) {
      if (series.memory == MemoryKind::device && series.skipped.empty()) {
        series.skipped = "a barrier moves no data: host measures it";
      }
      if (in_place_) series.skipped = "a barrier has no buffers";
      series.verifier = nullptr;
      return series;
    }
    const std::string refused = refused_operation(plan, point.collective, bytes, *candidate.entry);
    if (!refused.empty()) series.skipped = refused;
    if (!series.skipped.empty()) return series;
    if (in_place_) series.stamps = nullptr;  // for which operations are repeated
    point.verifier = std::make_unique<CollectiveVerifier>(point.collective, bytes, transports.memory(candidate));
    series.verifier = point.verifier.get();
    return series;
  }

  // What the rank that found the first mismatch makes of it, on all ranks, which know of it.
  static std::string failure_of(const Point& point, int found, const RankGroup& group) {
    const auto place = static_cast<int>(std::find(group.ranks.begin(), group.ranks.end(), found) - group.ranks.begin());
    const std::string why =
        mpi::broadcast(point.verifier ? point.verifier->diagnosis() : "", place, group.control.get());
    return "the result of rank " + std::to_string(found) + " is wrong" + (why.empty() ? "" : ": " + why);
  }

  Json record(const Point& point, const Series& series, const RankGroup& group, double clock_error_s) const {
    const std::uint64_t counts = series.sampled();
    Json own = {{"operation", name_of(point.collective.operation)},
                {"element", name_of(element_)},
                {"reduction", name_of(reduction_)},
                {"size_bytes", point.size_bytes},
                {"data_bytes", point.collective.whole(point.size_bytes)},
                {"operation_s", series.first_samples},
                {"rank_operation_s", series.mean_samples},
                {"operations_per_sample", counts},
                {"cold_operation_s", or_null(series.cold_s)},
                {"entry_skew_s", series.entry_skew_s},
                {"clock_error_s", clock_error_s}};
    if (series.mismatch) own["reason"] = failure_of(point, series.mismatch->rank, group);
    return point_record("collective", group.ranks, series, own);
  }

  std::vector<Operation> operations_;
  Element element_ = Element::float32;
  Reduction reduction_ = Reduction::sum;
  int root_ = 0;
  bool in_place_ = false;
  std::vector<int> imbalance_;
};

}  // namespace

std::unique_ptr<Benchmark> make_collective() { return std::make_unique<CollectiveBenchmark>(); }

}  // namespace volley
