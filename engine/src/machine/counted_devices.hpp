// The devices that carry messages between hosts and between GPUs, and what is counted of each.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace volley {

// A network interface, a port of an RDMA device, or the NVLinks or the PCIe link of a GPU.
struct CountedDevice {
  std::string name;   // "eth0", "mlx5_0", of another port than the first "mlx5_0:2"; "NVLink", "PCIe"
  bool rdma = false;  // a port of an RDMA device
  bool gpu = false;   // links of a GPU
  bool up = false;
  double rate_bits_per_s = 0;            // 0: the device does not say
  std::vector<std::string> shared = {};  // interfaces whose bytes this device counts as well: those stacked on it
  std::uint64_t sent_bytes = 0;
  std::uint64_t received_bytes = 0;
  std::uint64_t sent_packets = 0;  // 0 of a GPU, which counts no packets
  std::uint64_t received_packets = 0;
};

// Reads /sys/class/net and /sys/class/infiniband, sorted by name; nothing where these are missing. `root`: "/" outside
// tests. Source: Linux, Documentation/ABI/testing/sysfs-class-net-statistics, sysfs-class-net and
// stable/sysfs-class-infiniband: port_xmit_data and port_rcv_data count words of four bytes.
[[nodiscard]] std::vector<CountedDevice> network_devices(const std::string& root = "/");

// Asks NVML for the bytes that a GPU has sent and received over all of its NVLinks, and over PCIe; nothing where there
// is no NVML or no such counter. GPUs are named by PCI addresses. NVLink is up if it joins the GPU to `peer`.
[[nodiscard]] std::vector<CountedDevice> gpu_links(const std::string& gpu, const std::string& peer);

// What a counter has counted since it had the value `before`. NVML's counters of PCIe have 32 bits and begin again at
// 0.
[[nodiscard]] constexpr std::uint64_t counted_since(std::uint64_t before, std::uint64_t now) {
  return now >= before ? now - before : static_cast<std::uint32_t>(now - before);
}

}  // namespace volley
