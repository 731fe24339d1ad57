#pragma once
// What is called of NVML (libnvidia-ml.so.1), declared anew, since nvml.h is not part of every
// toolkit. Layouts and numbers: NVIDIA's NVML API reference and nvml.h of CUDA 12, and NVIDIA's
// bindings for Python, which a test holds them against. Names in the comments are NVML's.

namespace exec::cuda::nvml {

using Status = int;                    // nvmlReturn_t
constexpr Status kSuccess = 0;
constexpr Status kNotSupported = 3;
constexpr Status kInsufficientSize = 7;
using Device = void*;                  // nvmlDevice_t

struct MemoryV1 {                      // nvmlMemory_t
  unsigned long long total, free, used;
};
struct MemoryV2 {                      // nvmlMemory_v2_t
  unsigned version;
  unsigned long long total, reserved, free, used;
};
constexpr unsigned kMemoryV2 = static_cast<unsigned>(sizeof(MemoryV2)) | (2U << 24);

struct ProcessInfo {                   // nvmlProcessInfo_t
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance, compute_instance;
};
constexpr unsigned long long kNoFigure = ~0ULL;

struct PciInfo {                       // nvmlPciInfo_t
  char legacy[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char bus_id[32];                     // "00000000:1B:00.0"
};

struct FieldValue {                    // nvmlFieldValue_t
  unsigned field;
  unsigned scope;
  long long timestamp, latency;
  int type;                            // nvmlValueType_t
  Status status;
  union {
    double real;
    unsigned natural;
    unsigned long long large;
  } value;
};
constexpr int kNatural = 1, kLarge = 3;         // NVML_VALUE_TYPE_UNSIGNED_INT, _LONG_LONG
constexpr unsigned kLinkSpeed = 90;             // NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON
constexpr unsigned kSent = 138, kReceived = 139;  // NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, _RX
constexpr unsigned kAllLinks = ~0U;             // a scope

constexpr unsigned kMaxLinks = 36;              // NVML_NVLINK_MAX_LINKS
constexpr int kToGpu = 0, kToSwitch = 2;        // NVML_NVLINK_DEVICE_TYPE_*
constexpr int kPeerRead = 0;                    // NVML_P2P_CAPS_INDEX_READ
constexpr int kPeerOk = 0;                      // NVML_P2P_STATUS_OK

}  // namespace exec::cuda::nvml
