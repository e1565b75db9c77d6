// The network devices of this host, and what Linux counts of each.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace volley {

// A network interface, or a port of an RDMA device. The counters only grow.
struct NetworkDevice {
  std::string name;  // "eth0", "mlx5_0"; of another port than the first "mlx5_0:2"
  bool rdma = false;
  bool up = false;
  double rate_bits_per_s = 0;            // 0: the device does not say
  std::vector<std::string> shared = {};  // interfaces whose bytes this device counts as well: those stacked on it
  std::uint64_t sent_bytes = 0;
  std::uint64_t received_bytes = 0;
  std::uint64_t sent_packets = 0;
  std::uint64_t received_packets = 0;
};

// Reads /sys/class/net and /sys/class/infiniband, sorted by name; nothing where these are missing. `root`: "/" outside
// tests. Source: Linux, Documentation/ABI/testing/sysfs-class-net-statistics, sysfs-class-net and
// stable/sysfs-class-infiniband: port_xmit_data and port_rcv_data count words of four bytes.
[[nodiscard]] std::vector<NetworkDevice> network_devices(const std::string& root = "/");

}  // namespace volley
