// A stand-in for NVML: GPU a:0, which counts what the test says, and GPU b:0, which has no counter of PCIe. NVLink
// joins them.
#include <cstdint>
#include <cstring>

extern "C" {

std::uint64_t fake_nvml_counted = 0;  // by each counter, in its own unit

int nvmlInit_v2() { return 0; }

int nvmlDeviceGetHandleByPciBusId_v2(const char* address, const char** device) {
  *device = address;
  return std::strcmp(address, "a:0") == 0 || std::strcmp(address, "b:0") == 0 ? 0 : 6;  // NVML_ERROR_NOT_FOUND
}

int nvmlDeviceGetP2PStatus(const char*, const char*, int capability, int* status) {
  *status = capability == 2 ? 0 : 5;
  return 0;
}

struct Field {
  unsigned id, scope;
  long long times[2];
  int type, status;
  std::uint64_t value;
};

int nvmlDeviceGetFieldValues(const char* device, int count, Field* fields) {
  for (Field* each = fields; each < fields + count; ++each) {
    const bool nvlink = each->id < 197;
    each->type = nvlink ? 3 : 1;  // NVML_VALUE_TYPE_UNSIGNED_LONG_LONG, _UNSIGNED_INT
    each->status = nvlink ? (each->scope == ~0U ? 0 : 2) : (device[0] == 'a' ? 0 : 3);
    each->value =
        fake_nvml_counted | (nvlink ? 0 : std::uint64_t{7} << 32);  // a number of 32 bits leaves the rest as it was
  }
  return 0;
}
}
