#include "machine/counted_devices.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace volley {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::error_code none;
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder, none)) found.push_back(entry.path());
  std::ranges::sort(found);
  return found;
}

// The number that a file begins with; 0 where there is none, as of a link that is down.
template <class Number>
Number number_in(const fs::path& path) {
  std::ifstream file(path);
  Number number{};
  return file >> number ? number : Number{};
}

CountedDevice interface_at(const fs::path& path) {
  const auto counted = [&](const char* name) { return number_in<std::uint64_t>(path / "statistics" / name); };
  CountedDevice device{.name = path.filename(),
                       .up = number_in<int>(path / "carrier") == 1,
                       .rate_bits_per_s = 1e6 * std::max(0.0, number_in<double>(path / "speed")),
                       .sent_bytes = counted("tx_bytes"),
                       .received_bytes = counted("rx_bytes"),
                       .sent_packets = counted("tx_packets"),
                       .received_packets = counted("rx_packets")};
  constexpr std::string_view above = "upper_";  // a link to a bond, a bridge or a VLAN
  for (const auto& entry : entries_of(path)) {
    const std::string name = entry.filename();
    if (name.starts_with(above)) device.shared.push_back(name.substr(above.size()));
  }
  return device;
}

// EFA has counters of bytes in another folder, and none in the usual one. Omni-Path counts flits instead of words
// (Linux, drivers/infiniband/hw/hfi1/mad.c).
CountedDevice port_at(const fs::path& path, const fs::path& of_device) {
  const std::string name = of_device.filename(), number = path.filename();
  const int word_bytes = name.starts_with("hfi1") ? 8 : 4;
  const bool usual = fs::exists(path / "counters/port_xmit_data");
  const auto counted = [&](const char* words, const char* bytes) {
    return usual ? word_bytes * number_in<std::uint64_t>(path / "counters" / words)
                 : number_in<std::uint64_t>(path / "hw_counters" / bytes);
  };
  const auto packets = [&](const char* usually, const char* otherwise) {
    return number_in<std::uint64_t>(usual ? path / "counters" / usually : path / "hw_counters" / otherwise);
  };
  CountedDevice device{.name = number == "1" ? name : name + ":" + number,
                       .rdma = true,
                       .up = number_in<int>(path / "state") == 4,                  // "4: ACTIVE"
                       .rate_bits_per_s = 1e9 * number_in<double>(path / "rate"),  // "100 Gb/sec (4X EDR)"
                       .sent_bytes = counted("port_xmit_data", "tx_bytes"),
                       .received_bytes = counted("port_rcv_data", "rx_bytes"),
                       .sent_packets = packets("port_xmit_packets", "tx_pkts"),
                       .received_packets = packets("port_rcv_packets", "rx_pkts")};
  for (const auto& entry : entries_of(of_device / "device/net")) device.shared.push_back(entry.filename());
  return device;
}

}  // namespace

std::vector<CountedDevice> network_devices(const std::string& root) {
  std::vector<CountedDevice> found;
  for (const auto& path : entries_of(root + "sys/class/net")) {
    if (fs::exists(path / "statistics")) found.push_back(interface_at(path));
  }
  for (const auto& device : entries_of(root + "sys/class/infiniband")) {
    for (const auto& port : entries_of(device / "ports")) found.push_back(port_at(port, device));
  }
  return found;
}

}  // namespace volley
