// The benchmark `gpu_matrix`: every ordered pair of this machine's GPUs, all owned by this process.
#include <algorithm>

#include "benchmark/benchmark.hpp"
#include "benchmark/gpu_matrix/section.hpp"

namespace volley::gpu_matrix {
namespace {

class GpuMatrix final : public Benchmark {
 public:
  void read(PlanObject& options, const Plan& plan) override {
    options.require("sections", "a list");
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

  [[nodiscard]] bool needs_mpi() const override { return false; }

  void check(const Job& job) const override {
    for (const int device : options_.gpus) {
      if (job.gpus.devices == 0 || device < job.gpus.devices) continue;
      throw UsageError("the plan asks for GPU " + std::to_string(device) + ", but CUDA sees " +
                       std::to_string(job.gpus.devices) +
                       " here, counted from 0; CUDA_VISIBLE_DEVICES may hide others");
    }
  }

  Exit run(const Run& run) override {
    if (run.job.gpus.devices > 0) return measure(run, options_);
    run.records.write({{"record", "gpu_matrix_gpus"},
                       {"version", record_version},
                       {"devices", Json::array()},
                       {"can_access", Json::array()},
                       {"reason", or_null(run.job.gpus.reason)}});
    return Exit::unsupported;
  }

 private:
  void check_sections(PlanObject& options) const {
    if (options_.sections.empty()) options.complain("sections", "expected at least one section");
    std::vector<std::string> names;
    for (const auto& section : sections()) names.emplace_back(section.name);
    for (std::size_t i = 0; i < options_.sections.size(); ++i) {
      if (std::ranges::count(names, options_.sections[i]) > 0) continue;
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
