// A libnvidia-ml.so.1 for tests: GPUs as the words NAME=NUMBER of PLANNER_FAKE_NVML describe them,
// those of a machine with 8 H100 where a word is missing.
//   gpus links version mbps switched generation width peers  what joins them
//   odd=N     GPU N has one link less
//   mhz milliwatts reasons sent                             what a GPU reads
//   old=1     functions of newer drivers do not answer

#include <cstdlib>
#include <cstdio>
#include <cstring>
#include <sstream>
#include <string>

#include "exec/cuda/nvml/abi.hpp"

namespace {

using namespace exec::cuda::nvml;

long long number(const char* name, long long otherwise) {
  const char* const given = std::getenv("PLANNER_FAKE_NVML");
  std::istringstream text(given != nullptr ? given : "");
  const std::string start = std::string(name) + "=";
  for (std::string word; text >> word;)
    if (word.starts_with(start)) return std::stoll(word.substr(start.size()));
  return otherwise;
}

// A handle is a number from 1.
Device handle(unsigned index) { return reinterpret_cast<Device>(std::uintptr_t{index} + 1); }
long long index_of(Device device) {
  return static_cast<long long>(reinterpret_cast<std::uintptr_t>(device)) - 1;
}

Status tell(unsigned* to, long long value) {
  *to = static_cast<unsigned>(value);
  return kSuccess;
}

long long links_of(Device device) {
  return number("links", 18) - (index_of(device) == number("odd", -1) ? 1 : 0);
}

}  // namespace

#define FAKE_NVML extern "C" __attribute__((visibility("default"))) Status

FAKE_NVML nvmlInit_v2() { return static_cast<Status>(number("init", 0)); }
FAKE_NVML nvmlShutdown() { return kSuccess; }
FAKE_NVML nvmlSystemGetDriverVersion(char* text, unsigned size) {
  std::snprintf(text, size, "580.00");
  return kSuccess;
}
FAKE_NVML nvmlDeviceGetCount_v2(unsigned* count) { return tell(count, number("gpus", 8)); }
FAKE_NVML nvmlDeviceGetHandleByIndex_v2(unsigned index, Device* device) {
  *device = handle(index);
  return kSuccess;
}
FAKE_NVML nvmlDeviceGetHandleByPciBusId_v2(const char*, Device* device) {
  *device = handle(0);
  return kSuccess;
}
FAKE_NVML nvmlDeviceGetPciInfo_v3(Device device, PciInfo* info) {
  std::memset(info, 0, sizeof *info);
  std::snprintf(info->bus_id, sizeof info->bus_id, "00000000:%02llX:00.0",
                static_cast<unsigned long long>(0x1b + index_of(device)));
  return kSuccess;
}
FAKE_NVML nvmlDeviceGetMaxPcieLinkGeneration(Device, unsigned* value) {
  return tell(value, number("generation", 5));
}
FAKE_NVML nvmlDeviceGetMaxPcieLinkWidth(Device, unsigned* value) {
  return tell(value, number("width", 16));
}
FAKE_NVML nvmlDeviceGetNvLinkState(Device device, unsigned link, unsigned* active) {
  return tell(active, link < links_of(device) ? 1 : 0);
}
FAKE_NVML nvmlDeviceGetNvLinkVersion(Device, unsigned, unsigned* version) {
  return tell(version, number("version", 4));
}
FAKE_NVML nvmlDeviceGetNvLinkRemoteDeviceType(Device, unsigned, int* type) {
  if (number("old", 0) != 0) return kNotSupported;
  *type = number("switched", 1) != 0 ? kToSwitch : kToGpu;
  return kSuccess;
}
FAKE_NVML nvmlDeviceGetP2PStatus(Device, Device, int, int* status) {
  if (number("old", 0) != 0) return kNotSupported;
  *status = number("peers", 1) != 0 ? kPeerOk : 1;
  return kSuccess;
}
FAKE_NVML nvmlDeviceGetFieldValues(Device, int count, FieldValue* values) {
  for (FieldValue* v = values; v != values + count; ++v) {
    v->status = number("old", 0) != 0 ? kNotSupported : kSuccess;
    v->type = v->field == kLinkSpeed ? kNatural : kLarge;
    if (v->field == kLinkSpeed) v->value.natural = static_cast<unsigned>(number("mbps", 26562));
    else v->value.large = static_cast<unsigned long long>(number("sent", 7));
  }
  return kSuccess;
}
FAKE_NVML nvmlDeviceGetClockInfo(Device, unsigned, unsigned* mhz) {
  return tell(mhz, number("mhz", 1755));
}
FAKE_NVML nvmlDeviceGetPowerUsage(Device, unsigned* milliwatts) {
  return tell(milliwatts, number("milliwatts", 345000));
}
FAKE_NVML nvmlDeviceGetCurrentClocksEventReasons(Device, unsigned long long* mask) {
  *mask = static_cast<unsigned long long>(number("reasons", 4));
  return kSuccess;
}
