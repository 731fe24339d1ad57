#include "exec/cuda/runtime/cupti_activity.hpp"

#include <cxxabi.h>
#include <dlfcn.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <new>
#include <unordered_map>
#include <utility>

#include "core/clock.hpp"
#include "exec/cuda/runtime/cupti.hpp"

namespace exec::cuda {
namespace {

// CUDA 13 and newer: 130001 for 13.0; before, a count of releases: 18 for 12.0 (and 11.8), 28 for
// 12.9.
constexpr std::uint32_t kFirstCounted = 18, kFirstDated = 130000;
std::uint32_t major_of(std::uint32_t version) {
  if (version >= kFirstDated) return version / 10000;
  return version >= kFirstCounted ? 12 : 11;
}
constexpr std::uint32_t kBuiltMajor =
    CUPTI_API_VERSION >= kFirstDated ? CUPTI_API_VERSION / 10000 : 12;

std::string text_of(std::uint32_t version) {
  if (version < kFirstDated) return std::to_string(major_of(version)) + ".x";
  return std::to_string(version / 10000) + "." + std::to_string(version % 10000 / 100);
}

// Newer libraries write longer records, which begin as these, the oldest of CUDA 12 and 13.
using Kernel = CUpti_ActivityKernel9;
using Copy = CUpti_ActivityMemcpy5;
using Fill = CUpti_ActivityMemset4;
using External = CUpti_ActivityExternalCorrelation;
#if CUPTI_API_VERSION >= 130000
static_assert(offsetof(CUpti_ActivityKernel10, graphNodeId) == offsetof(Kernel, graphNodeId) &&
              offsetof(CUpti_ActivityKernel10, name) == offsetof(Kernel, name) &&
              offsetof(CUpti_ActivityKernel10, start) == offsetof(Kernel, start) &&
              offsetof(CUpti_ActivityKernel10, correlationId) == offsetof(Kernel, correlationId));
static_assert(offsetof(CUpti_ActivityMemcpy6, graphNodeId) == offsetof(Copy, graphNodeId) &&
              offsetof(CUpti_ActivityMemcpy6, start) == offsetof(Copy, start) &&
              offsetof(CUpti_ActivityMemcpy6, correlationId) == offsetof(Copy, correlationId));
#endif

// Records of calls are wanted for nothing but the external records that come with them.
constexpr std::array kKinds{
    CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, CUPTI_ACTIVITY_KIND_RUNTIME,
    CUPTI_ACTIVITY_KIND_DRIVER,               CUPTI_ACTIVITY_KIND_MEMSET,
    CUPTI_ACTIVITY_KIND_MEMCPY,               CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL};
constexpr auto kGiver = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;

constexpr std::size_t kBufferBytes = std::size_t{4} << 20;
constexpr std::align_val_t kBufferAlignment{8};

struct Buffer {
  std::uint8_t* data;
  std::size_t bytes;
};

// Buffers that are full, or flushed; CUPTI's callbacks take no argument of ours and come from its
// own threads.
std::mutex returned_mutex;
std::vector<Buffer> returned;

void free_buffer(std::uint8_t* data) { ::operator delete(data, kBufferAlignment); }

void CUPTIAPI on_request(std::uint8_t** data, std::size_t* bytes, std::size_t* records) {
  *data = static_cast<std::uint8_t*>(::operator new(kBufferBytes, kBufferAlignment, std::nothrow));
  *bytes = *data == nullptr ? 0 : kBufferBytes;
  *records = 0;                        // as many as there is room for
}

void CUPTIAPI on_complete(CUcontext, std::uint32_t, std::uint8_t* data, std::size_t,
                          std::size_t valid) {
  const std::scoped_lock lock(returned_mutex);
  returned.push_back({data, valid});
}

std::vector<Buffer> take_returned() {
  const std::scoped_lock lock(returned_mutex);
  return std::exchange(returned, {});
}

void CUPTIAPI on_call(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {}

std::string name_of_copy(std::uint8_t kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD: return "copy, host to device";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH: return "copy, device to host";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOD: return "copy, device to device";
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOH: return "copy, host to host";
    default: return "copy";
  }
}

std::string refused_by(const Cupti& calls, const char* call, CUptiResult result) {
  const char* words = nullptr;
  calls.result_string(result, &words);
  std::string text = std::string(call) + ": " + (words != nullptr ? words : "an unknown result");
  if (result == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES)
    text += "; let users profile: NVreg_RestrictProfilingToAdminUsers=0 of the driver's module";
  if (result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED)
    text += "; another profiler is attached: run without it";
  return text;
}

using Givers = std::unordered_map<std::uint32_t, std::uint64_t>;  // by correlation of the call

class CuptiActivity final : public ActivityLibrary {
 public:
  // REQUIRES: subscribed.
  CuptiActivity(const Cupti& calls, std::uint32_t version, CUpti_SubscriberHandle subscriber)
      : calls_(calls), version_(version), subscriber_(subscriber) {}
  ~CuptiActivity() override {
    stop();
    calls_.flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    for (const Buffer& b : take_returned()) free_buffer(b.data);
    calls_.unsubscribe(subscriber_);
  }

  std::string name() const override { return "CUPTI " + text_of(version_); }
  std::string start() override;
  void stop() override;
  void push(std::uint64_t number) override { calls_.push(kGiver, number); }
  void pop() override {
    std::uint64_t last = 0;
    calls_.pop(kGiver, &last);
  }
  DeviceRecords take() override;

 private:
  std::string set_clock();
  // Every record of the buffers, in their order. Returns how many ended within a record.
  std::uint64_t each(const std::vector<Buffer>& buffers,
                     const std::function<void(const CUpti_Activity&)>& visit) const;
  template <class Record>
  void add(const Record& record, std::string name, const Givers& givers, DeviceRecords& to) const;

  const Cupti calls_;
  const std::uint32_t version_;
  const CUpti_SubscriberHandle subscriber_;
  std::size_t enabled_ = 0;            // of kKinds, the first so many
  std::uint64_t origin_ = 0;           // a moment of CUPTI's clock, in nanoseconds
  double origin_seconds_ = 0;          // the same of the steady clock
};

// The closest of a few pairs of moments.
std::string CuptiActivity::set_clock() {
  double closest = 0;
  for (int i = 0; i < 5; ++i) {
    std::uint64_t nanoseconds = 0;
    const double before = core::steady_seconds();
    if (const CUptiResult r = calls_.timestamp(&nanoseconds); r != CUPTI_SUCCESS)
      return refused_by(calls_, "cuptiGetTimestamp", r);
    const double after = core::steady_seconds();
    if (i > 0 && after - before >= closest) continue;
    closest = after - before;
    origin_ = nanoseconds;
    origin_seconds_ = (before + after) / 2;
  }
  return {};
}

std::string CuptiActivity::start() {
  if (std::string why = set_clock(); !why.empty()) return why;
  if (const CUptiResult r = calls_.register_callbacks(on_request, on_complete); r != CUPTI_SUCCESS)
    return refused_by(calls_, "cuptiActivityRegisterCallbacks", r);
  for (; enabled_ < kKinds.size(); ++enabled_)
    if (const CUptiResult r = calls_.enable(kKinds[enabled_]); r != CUPTI_SUCCESS) {
      stop();
      return refused_by(calls_, "cuptiActivityEnable", r);
    }
  return {};
}

void CuptiActivity::stop() {
  while (enabled_ > 0) calls_.disable(kKinds[--enabled_]);
}

std::uint64_t CuptiActivity::each(const std::vector<Buffer>& buffers,
                                  const std::function<void(const CUpti_Activity&)>& visit) const {
  std::uint64_t cut = 0;
  for (const Buffer& b : buffers) {
    CUpti_Activity* record = nullptr;
    CUptiResult next = CUPTI_SUCCESS;
    while ((next = calls_.next_record(b.data, b.bytes, &record)) == CUPTI_SUCCESS) visit(*record);
    cut += next != CUPTI_ERROR_MAX_LIMIT_REACHED;
  }
  return cut;
}

// Both moments are 0 where none could be had.
template <class Record>
void CuptiActivity::add(const Record& record, std::string name, const Givers& givers,
                        DeviceRecords& to) const {
  if (record.start == 0 || record.end < record.start) {
    ++to.lost;
    return;
  }
  const auto seconds = [this](std::uint64_t nanoseconds) {
    const auto since = static_cast<std::int64_t>(nanoseconds - origin_);
    return origin_seconds_ + static_cast<double>(since) / 1e9;
  };
  const bool of_graph = record.graphNodeId != 0;
  const auto giver = givers.find(record.correlationId);
  const bool given = !of_graph && giver != givers.end();
  to.all.push_back({std::move(name), given ? giver->second : 0, of_graph, seconds(record.start),
                    seconds(record.end)});
}

// A giver's record may lie in a later buffer than what it gave.
DeviceRecords CuptiActivity::take() {
  DeviceRecords taken;
  const CUptiResult flushed = calls_.flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  if (flushed != CUPTI_SUCCESS)
    taken.failed = refused_by(calls_, "cuptiActivityFlushAll", flushed);
  const std::vector<Buffer> buffers = take_returned();
  Givers givers;
  each(buffers, [&](const CUpti_Activity& r) {
    if (r.kind != CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION) return;
    const auto& external = reinterpret_cast<const External&>(r);
    if (external.externalKind == kGiver) givers[external.correlationId] = external.externalId;
  });
  const std::uint64_t cut = each(buffers, [&](const CUpti_Activity& r) {
    if (r.kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
      const auto& kernel = reinterpret_cast<const Kernel&>(r);
      add(kernel, readable_kernel(kernel.name), givers, taken);
    } else if (r.kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
      const auto& copy = reinterpret_cast<const Copy&>(r);
      add(copy, name_of_copy(copy.copyKind), givers, taken);
    } else if (r.kind == CUPTI_ACTIVITY_KIND_MEMSET) {
      add(reinterpret_cast<const Fill&>(r), "fill", givers, taken);
    }
  });
  taken.lost += cut;
  for (const Buffer& b : buffers) free_buffer(b.data);
  std::size_t dropped = 0;
  if (calls_.dropped(nullptr, 0, &dropped) == CUPTI_SUCCESS) taken.lost += dropped;
  return taken;
}

// True where the library has the call.
template <class Call>
bool find(void* library, const char* name, Call& call) {
  call = reinterpret_cast<Call>(::dlsym(library, name));
  return call != nullptr;
}

bool find_all(void* library, Cupti& c) {
  return find(library, "cuptiGetVersion", c.version) &&
         find(library, "cuptiGetResultString", c.result_string) &&
         find(library, "cuptiGetTimestamp", c.timestamp) &&
         find(library, "cuptiSubscribe", c.subscribe) &&
         find(library, "cuptiUnsubscribe", c.unsubscribe) &&
         find(library, "cuptiActivityRegisterCallbacks", c.register_callbacks) &&
         find(library, "cuptiActivityEnable", c.enable) &&
         find(library, "cuptiActivityDisable", c.disable) &&
         find(library, "cuptiActivityFlushAll", c.flush_all) &&
         find(library, "cuptiActivityGetNextRecord", c.next_record) &&
         find(library, "cuptiActivityGetNumDroppedRecords", c.dropped) &&
         find(library, "cuptiActivityPushExternalCorrelationId", c.push) &&
         find(library, "cuptiActivityPopExternalCorrelationId", c.pop);
}

}  // namespace

// Arguments are the last thing in parentheses, and nothing follows them.
std::string readable_kernel(const char* name) {
  if (name == nullptr) return "a kernel without a name";
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> plain(
      abi::__cxa_demangle(name, nullptr, nullptr, &status), &std::free);
  if (plain == nullptr) return name;
  std::string text = plain.get();
  if (text.starts_with("void ")) text.erase(0, 5);
  if (!text.ends_with(')')) return text;
  int depth = 0;
  for (std::size_t i = text.size(); i-- > 1;) {
    depth += text[i] == ')' ? 1 : text[i] == '(' ? -1 : 0;
    if (depth == 0) return text.substr(0, i);
  }
  return text;
}

OpenedActivity open_cupti(const Cupti& calls) {
  std::uint32_t version = 0;
  if (const CUptiResult r = calls.version(&version); r != CUPTI_SUCCESS)
    return {nullptr, refused_by(calls, "cuptiGetVersion", r)};
  if (major_of(version) != kBuiltMajor)
    return {nullptr, "CUPTI " + text_of(version) + " was opened, this binary was built for that " +
                         "of CUDA " + std::to_string(kBuiltMajor) + ": its records are others"};
  CUpti_SubscriberHandle subscriber = nullptr;
  if (const CUptiResult r = calls.subscribe(&subscriber, on_call, nullptr); r != CUPTI_SUCCESS)
    return {nullptr, refused_by(calls, "cuptiSubscribe", r)};
  return {std::make_unique<CuptiActivity>(calls, version, subscriber), {}};
}

OpenedActivity open_cupti() {
  const std::string named = "libcupti.so." + std::to_string(kBuiltMajor);
  void* library = ::dlopen(named.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) library = ::dlopen("libcupti.so", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return {nullptr,
            named + " cannot be opened: it is part of the CUDA toolkit (extras/CUPTI/lib64), and "
                    "of the wheel nvidia-cuda-cupti; name its folder in LD_LIBRARY_PATH"};
  Cupti calls;
  if (!find_all(library, calls)) return {nullptr, named + " lacks a call: " + ::dlerror()};
  return open_cupti(calls);
}

}  // namespace exec::cuda
