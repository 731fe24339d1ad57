#include "tests/unit/cuda_runtime/fake_cupti.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "core/check.hpp"

namespace fake_cupti {
namespace {

using Bytes = std::vector<std::uint8_t>;
#if CUPTI_API_VERSION >= 130000
using Kernel = CUpti_ActivityKernel10;
using Copy = CUpti_ActivityMemcpy6;
#else
using Kernel = CUpti_ActivityKernel9;
using Copy = CUpti_ActivityMemcpy5;
#endif
using Fill = CUpti_ActivityMemset4;
using External = CUpti_ActivityExternalCorrelation;

constexpr std::uint64_t kZero = 1'700'000'000'000'000'000;  // another clock than the steady one

std::mutex mutex;
double steady_zero = 0;
std::set<CUpti_ActivityKind> kinds;
int subscribed = 0;
std::uint32_t correlations = 0;
std::vector<Bytes> records;            // since the last flush
CUpti_BuffersCallbackRequestFunc request = nullptr;
CUpti_BuffersCallbackCompleteFunc complete = nullptr;
thread_local std::vector<std::pair<CUpti_ExternalCorrelationKind, std::uint64_t>> pushed;

double now() {
  const auto t = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(t).count();
}

template <class Record>
void keep(const Record& record) {
  Bytes bytes(sizeof record);
  std::memcpy(bytes.data(), &record, sizeof record);
  records.push_back(std::move(bytes));
}

// The call that gives work: its correlation, and the external record that its own comes with.
std::uint32_t called() {
  const std::uint32_t correlation = ++correlations;
  const bool of_calls = kinds.contains(CUPTI_ACTIVITY_KIND_RUNTIME);
  if (of_calls && kinds.contains(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION) && !pushed.empty()) {
    External e{};
    e.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
    e.externalKind = pushed.back().first;
    e.externalId = pushed.back().second;
    e.correlationId = correlation;
    keep(e);
    e.externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_OPENACC;
    e.externalId = 999;                // somebody else's
    keep(e);
  }
  if (of_calls) {
    CUpti_ActivityAPI a{};
    a.kind = CUPTI_ACTIVITY_KIND_RUNTIME;
    a.correlationId = correlation;
    keep(a);
  }
  return correlation;
}

template <class Record>
Record ran(CUpti_ActivityKind kind, std::uint64_t start, std::uint64_t end) {
  Record r;
  std::memset(&r, 0xEE, sizeof r);     // what is read must have been written
  r.kind = kind;
  r.start = start == 0 && end == 0 ? 0 : kZero + start;
  r.end = start == 0 && end == 0 ? 0 : kZero + end;
  r.graphNodeId = 0;
  r.correlationId = called();
  return r;
}

std::size_t size_of(CUpti_ActivityKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: return sizeof(External);
    case CUPTI_ACTIVITY_KIND_RUNTIME: return sizeof(CUpti_ActivityAPI);
    case CUPTI_ACTIVITY_KIND_MEMCPY: return sizeof(Copy);
    case CUPTI_ACTIVITY_KIND_MEMSET: return sizeof(Fill);
    default: return sizeof(Kernel);
  }
}

CUptiResult get_version(std::uint32_t* version) {
  *version = answers.version;
  return CUPTI_SUCCESS;
}
CUptiResult result_string(CUptiResult result, const char** text) {
  *text = "another result";
  if (result == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES) *text = "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES";
  if (result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED)
    *text = "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS";
  return CUPTI_SUCCESS;
}
CUptiResult timestamp(std::uint64_t* nanoseconds) {
  *nanoseconds = kZero + static_cast<std::uint64_t>((now() - steady_zero) * 1e9);
  return CUPTI_SUCCESS;
}
CUptiResult subscribe(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc, void*) {
  if (answers.subscribe != CUPTI_SUCCESS) return answers.subscribe;
  static int one = 0;
  *subscriber = reinterpret_cast<CUpti_SubscriberHandle>(&one);
  ++subscribed;
  return CUPTI_SUCCESS;
}
CUptiResult unsubscribe(CUpti_SubscriberHandle) {
  --subscribed;
  return CUPTI_SUCCESS;
}
CUptiResult register_callbacks(CUpti_BuffersCallbackRequestFunc r,
                               CUpti_BuffersCallbackCompleteFunc c) {
  request = r;
  complete = c;
  return CUPTI_SUCCESS;
}
CUptiResult enable(CUpti_ActivityKind kind) {
  if (kind == answers.refused_kind) return answers.refused_with;
  const std::scoped_lock lock(mutex);
  kinds.insert(kind);
  return CUPTI_SUCCESS;
}
CUptiResult disable(CUpti_ActivityKind kind) {
  const std::scoped_lock lock(mutex);
  kinds.erase(kind);
  return CUPTI_SUCCESS;
}

struct Full {
  std::uint8_t* data;
  std::size_t size, valid;
};

Full filled(std::size_t first, std::size_t last) {
  Full f{};
  std::size_t most = 0;
  request(&f.data, &f.size, &most);
  PLANNER_CHECK(f.data != nullptr && reinterpret_cast<std::uintptr_t>(f.data) % 8 == 0,
                "a buffer at a multiple of 8 bytes");
  for (std::size_t i = first; i < last; ++i) {
    PLANNER_CHECK(f.valid + records[i].size() <= f.size, "a buffer that is too small");
    std::memcpy(f.data + f.valid, records[i].data(), records[i].size());
    f.valid += records[i].size();
  }
  return f;
}

// As CUPTI's own threads do, each at its time.
CUptiResult flush_all(std::uint32_t) {
  if (request == nullptr) return CUPTI_ERROR_INVALID_OPERATION;
  std::vector<Full> buffers;
  for (std::size_t i = 0; i < records.size(); i += answers.records_per_buffer)
    buffers.push_back(filled(i, std::min(i + answers.records_per_buffer, records.size())));
  records.clear();
  if (answers.newest_first) std::ranges::reverse(buffers);
  std::vector<std::thread> threads;
  for (const Full& f : buffers) {
    threads.emplace_back([f] { complete(nullptr, 0, f.data, f.size, f.valid); });
    if (answers.newest_first) threads.back().join();
  }
  for (std::thread& t : threads)
    if (t.joinable()) t.join();
  return answers.flush;
}
CUptiResult next_record(std::uint8_t* data, std::size_t valid, CUpti_Activity** record) {
  std::uint8_t* at = data;
  if (*record != nullptr)
    at = reinterpret_cast<std::uint8_t*>(*record) + size_of((*record)->kind);
  if (at >= data + valid) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  auto* const found = reinterpret_cast<CUpti_Activity*>(at);
  if (answers.cuts_last && at + size_of(found->kind) == data + valid)
    return CUPTI_ERROR_INVALID_KIND;
  *record = found;
  return CUPTI_SUCCESS;
}
CUptiResult get_dropped(CUcontext, std::uint32_t, std::size_t* dropped) {
  *dropped = std::exchange(answers.dropped, 0);
  return CUPTI_SUCCESS;
}
CUptiResult push(CUpti_ExternalCorrelationKind kind, std::uint64_t number) {
  pushed.emplace_back(kind, number);
  return CUPTI_SUCCESS;
}
CUptiResult pop(CUpti_ExternalCorrelationKind, std::uint64_t* number) {
  if (pushed.empty()) return CUPTI_ERROR_QUEUE_EMPTY;
  *number = pushed.back().second;
  pushed.pop_back();
  return CUPTI_SUCCESS;
}

}  // namespace

void reset() {
  answers = {};
  kinds.clear();
  records.clear();
  pushed.clear();
  request = nullptr;
  complete = nullptr;
  subscribed = 0;
  steady_zero = now();
}

exec::cuda::Cupti calls() {
  return {get_version, result_string, timestamp, subscribe,   unsubscribe, register_callbacks,
          enable,      disable,       flush_all, next_record, get_dropped, push,
          pop};
}

void launch(const char* mangled, std::uint64_t start, std::uint64_t end, bool of_graph) {
  const std::scoped_lock lock(mutex);
  auto k = ran<Kernel>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, start, end);
  k.name = mangled;
  if (of_graph) k.graphNodeId = 7;
  if (kinds.contains(k.kind)) keep(k);
}

void copy(std::uint8_t kind, std::uint64_t start, std::uint64_t end) {
  const std::scoped_lock lock(mutex);
  auto c = ran<Copy>(CUPTI_ACTIVITY_KIND_MEMCPY, start, end);
  c.copyKind = kind;
  if (kinds.contains(c.kind)) keep(c);
}

void fill(std::uint64_t start, std::uint64_t end) {
  const std::scoped_lock lock(mutex);
  const auto f = ran<Fill>(CUPTI_ACTIVITY_KIND_MEMSET, start, end);
  if (kinds.contains(f.kind)) keep(f);
}

double zero() { return steady_zero; }
std::size_t enabled_kinds() { return kinds.size(); }
int subscribers() { return subscribed; }

}  // namespace fake_cupti
