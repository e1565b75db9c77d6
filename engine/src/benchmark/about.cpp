#include "benchmark/about.hpp"

#include "benchmark/gpu_matrix/section.hpp"
#include "group/run_record.hpp"
#include "mpi/version.hpp"
#include "transport/registry.hpp"

namespace volley {

Json about() {
  Json answer = engine_facts(mpi_built());
  Json transports = Json::array();
  for (const auto& entry : registry()) {
    transports.push_back({{"name", entry.name},
                          {"summary", entry.summary},
                          {"mpi", entry.mpi != ThroughMpi::no},
                          {"device_pointers", entry.mpi == ThroughMpi::on_device_pointers},
                          {"memory", name_of(entry.memory)},
                          {"usual", entry.tier == Tier::usual},
                          {"halos", entry.halos}});
  }
  answer["transports"] = transports;
  Json known_faults = Json::array();
  for (const auto& entry : faults()) known_faults.push_back({{"name", entry.name}, {"summary", entry.summary}});
  answer["faults"] = known_faults;
  Json sections = Json::array();
  for (const auto& section : gpu_matrix::sections()) {
    sections.push_back({{"name", section.name}, {"ends", name_of(section.ends)}, {"test", section.fault != Fault::none}});
  }
  answer["sections"] = sections;
  return answer;
}

}  // namespace volley
