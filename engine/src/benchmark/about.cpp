#include "benchmark/about.hpp"

#include "benchmark/gpu_matrix/section.hpp"
#include "group/run_record.hpp"

namespace volley {

Json about(const std::string& mpi_built, std::span<const TransportEntry> transports) {
  Json answer = engine_facts(mpi_built);
  Json carried = Json::array();
  for (const auto& entry : transports) {
    carried.push_back({{"name", entry.name},
                       {"summary", entry.summary},
                       {"mpi", entry.mpi},
                       {"memory", name_of(entry.memory)},
                       {"test", entry.test},
                       {"halos", entry.halos}});
  }
  answer["transports"] = carried;
  Json sections = Json::array();
  for (const auto& section : gpu_matrix::sections()) {
    sections.push_back({{"name", section.name}, {"ends", name_of(section.ends)}, {"test", section.fault != nullptr}});
  }
  answer["sections"] = sections;
  return answer;
}

}  // namespace volley
