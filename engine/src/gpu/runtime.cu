// Which devices there are. Nothing here creates a context.
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

}  // namespace

Presence presence() {
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status == cudaSuccess && devices > 0) return {devices, {}};
  cudaGetLastError();  // the error is told here; nobody should find it again
  if (status == cudaSuccess || status == cudaErrorNoDevice) return {0, "CUDA sees no device"};
  if (status == cudaErrorInsufficientDriver) {
    int driver = 0;
    cudaDriverGetVersion(&driver);
    if (driver == 0) return {0, "no NVIDIA driver"};
    return {0, "the NVIDIA driver is too old: it supports CUDA " + std::to_string(driver / 1000) + "." +
                   std::to_string(driver % 1000 / 10) + ", this engine needs " + std::to_string(CUDART_VERSION / 1000) +
                   "." + std::to_string(CUDART_VERSION % 1000 / 10)};
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

}  // namespace volley::gpu
