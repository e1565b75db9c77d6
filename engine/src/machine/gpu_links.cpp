// Counters of a GPU's links, by NVML, the NVIDIA driver's library, which is loaded when it is first asked.
#include <array>
#include <memory>

#include "base/shared_library.hpp"
#include "machine/counted_devices.hpp"

namespace volley {
namespace {

// The declarations and numbers repeat those of nvml.h (NVIDIA, NVML API Reference Guide).
struct NvmlField {  // nvmlFieldValue_t
  unsigned id = 0;
  unsigned scope = 0;
  long long time_us = 0, latency_us = 0;
  int type = 0;  // nvmlValueType_t
  int status = 0;
  std::uint64_t value = 0;  // nvmlValue_t, a union

  static constexpr int unsigned_int = 1;
  [[nodiscard]] std::uint64_t number() const { return type == unsigned_int ? static_cast<unsigned>(value) : value; }
};

struct Nvml {
  using Device = void*;
  Library library{"libnvidia-ml.so.1"};
  int (*init)() = library.find("nvmlInit_v2");
  int (*by_pci)(const char*, Device*) = library.find("nvmlDeviceGetHandleByPciBusId_v2");
  int (*p2p_status)(Device, Device, int capability, int* status) = library.find("nvmlDeviceGetP2PStatus");
  int (*fields)(Device, int count, NvmlField*) = library.find("nvmlDeviceGetFieldValues");
};
constexpr int p2p_by_nvlink = 2;     // NVML_P2P_CAPS_INDEX_NVLINK
constexpr unsigned all_links = ~0U;  // a scope

std::unique_ptr<Nvml> loaded() {
  try {
    auto nvml = std::make_unique<Nvml>();
    return nvml->init() == 0 ? std::move(nvml) : nullptr;
  } catch (const std::runtime_error&) {  // no driver, or an old one
    return nullptr;
  }
}

}  // namespace

std::vector<CountedDevice> gpu_links(const std::string& gpu, const std::string& peer) {
  static const auto nvml = loaded();
  Nvml::Device here = nullptr, there = nullptr;
  if (!nvml || nvml->by_pci(gpu.c_str(), &here) != 0) return {};
  int status = 0;
  const bool joined = gpu != peer && nvml->by_pci(peer.c_str(), &there) == 0 &&
                      nvml->p2p_status(here, there, p2p_by_nvlink, &status) == 0 && status == 0;
  std::vector<CountedDevice> found;
  const auto add = [&](const char* name, bool up, NvmlField sent, NvmlField received, std::uint64_t unit_bytes) {
    std::array both{sent, received};
    if (nvml->fields(here, both.size(), both.data()) != 0 || both[0].status != 0 || both[1].status != 0) return;
    found.push_back({.name = name,
                     .gpu = true,
                     .up = up,
                     .sent_bytes = unit_bytes * both[0].number(),
                     .received_bytes = unit_bytes * both[1].number()});
  };
  // NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX and _RX, in KiB; NVML_FI_DEV_PCIE_COUNT_TX_BYTES and _RX_BYTES, since Hopper
  add("NVLink", joined, {.id = 138, .scope = all_links}, {.id = 139, .scope = all_links}, 1024);
  add("PCIe", true, {.id = 197}, {.id = 198}, 1);
  return found;
}

}  // namespace volley
