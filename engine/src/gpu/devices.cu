// The devices, and what they can do.
#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>

#include "gpu/check.cuh"
#include "gpu/gpu.hpp"

namespace volley::gpu {

namespace {

std::string formatted_uuid(const cudaUUID_t& uuid) {
  std::string text = "GPU-";
  for (std::size_t i = 0; i < sizeof uuid.bytes; ++i) {
    std::array<char, 3> digits{};
    std::snprintf(digits.data(), digits.size(), "%02x", static_cast<unsigned char>(uuid.bytes[i]));
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += digits.data();
  }
  return text;
}

// "13.0" from 13000.
std::string formatted_version(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// Resets an error that a call has returned already, so that the next check does not find it again.
void clear_error() { static_cast<void>(cudaGetLastError()); }

int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  VOLLEY_CUDA_CHECK(cudaDeviceGetAttribute(&value, which, device));
  return value;
}

}  // namespace

Presence presence() {
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status == cudaSuccess && devices > 0) return {devices, {}};
  clear_error();
  if (status == cudaSuccess || status == cudaErrorNoDevice) return {0, "CUDA sees no device"};
  if (status == cudaErrorInsufficientDriver) {
    int driver = 0;
    cudaDriverGetVersion(&driver);
    if (driver == 0) return {0, "no NVIDIA driver"};
    return {0, "the NVIDIA driver is too old: it supports CUDA " + formatted_version(driver) + ", this engine needs " +
                   formatted_version(CUDART_VERSION)};
  }
  return {0, std::string("cudaGetDeviceCount failed: ") + cudaGetErrorString(status)};
}

Device describe(int index) {
  cudaDeviceProp properties{};
  VOLLEY_CUDA_CHECK(cudaGetDeviceProperties(&properties, index));
  std::array<char, 32> pci{};
  VOLLEY_CUDA_CHECK(cudaDeviceGetPCIBusId(pci.data(), pci.size(), index));
  std::string address = pci.data();
  std::transform(address.begin(), address.end(), address.begin(), [](unsigned char c) { return std::tolower(c); });
  return {index,
          properties.name,
          formatted_uuid(properties.uuid),
          address,
          std::to_string(properties.major) + "." + std::to_string(properties.minor),
          properties.totalGlobalMem};
}

void select(int index) { VOLLEY_CUDA_CHECK(cudaSetDevice(index)); }

std::uint64_t free_memory_bytes() {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  VOLLEY_CUDA_CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
  return free_bytes;
}

unsigned multiprocessors(int index) { return static_cast<unsigned>(attribute(cudaDevAttrMultiProcessorCount, index)); }

bool can_register_host_memory() {
  int device = 0;
  VOLLEY_CUDA_CHECK(cudaGetDevice(&device));
  return attribute(cudaDevAttrHostRegisterSupported, device) != 0;
}

bool can_access_peer(int from, int to) {
  int can = 0;
  VOLLEY_CUDA_CHECK(cudaDeviceCanAccessPeer(&can, from, to));
  return can != 0;
}

bool enable_peer_access(int to) {
  const cudaError_t status = cudaDeviceEnablePeerAccess(to, 0);
  clear_error();
  return status == cudaSuccess || status == cudaErrorPeerAccessAlreadyEnabled;
}

std::string device_error(int index) {
  clear_error();
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  cudaError_t status = cudaSetDevice(index);
  if (status == cudaSuccess) status = cudaMemGetInfo(&free_bytes, &total_bytes);
  return status == cudaSuccess ? "" : cudaGetErrorString(status);
}

}  // namespace volley::gpu
