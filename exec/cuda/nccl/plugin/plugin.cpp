// libplanner-nccl.so: a plugin that NCCL loads (NCCL_TUNER_PLUGIN, NCCL_PROFILER_PLUGIN). As tuner
// it takes algorithms, protocols and channels from the file that PLANNER_NCCL_CHOICES names. As
// profiler it counts what NCCL ran. The executor reads the counts by planner_nccl_calls().
// Thread-safe.

#include <cctype>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "exec/cuda/nccl/plugin/abi.hpp"
#include "exec/cuda/nccl/plugin/choices.hpp"

namespace {

using namespace exec::cuda::nccl;

constexpr int kWarning = 2;            // NCCL_LOG_WARN
constexpr unsigned long kTuning = 64;  // NCCL_TUNING

// ---- tuner: one for each communicator

struct Tuned {
  int ranks = 0;
  std::vector<Choice> choices;
};

Result refuse(Log log, const std::string& why) {
  if (log != nullptr) log(kWarning, kTuning, __FILE__, __LINE__, "planner: %s", why.c_str());
  return kInvalidArgument;
}

Result begin_tuning(std::size_t ranks, std::size_t, Log log, void** context) try {
  auto tuned = std::make_unique<Tuned>();
  tuned->ranks = static_cast<int>(ranks);
  if (const char* const path = std::getenv("PLANNER_NCCL_CHOICES")) {
    std::ifstream file(path);
    if (!file) return refuse(log, std::string("expected to read ") + path);
    const std::string text(std::istreambuf_iterator<char>(file), {});
    int wrong = 0;
    auto choices = choices_from(text, wrong);
    if (!choices)
      return refuse(log, std::string(path) + " line " + std::to_string(wrong) +
                             ": expected CALL RANKS BYTES ALGORITHM PROTOCOL CHANNELS");
    tuned->choices = std::move(*choices);
  }
  *context = tuned.release();
  return kSuccess;
} catch (const std::exception& e) {
  return refuse(log, e.what());
}

// NCCL's own choice stays where the file has none, or one that it cannot run.
Result tune(void* context, int function, std::size_t bytes, int, float** costs, int algorithms,
            int protocols, int, int* channels) {
  const auto& tuned = *static_cast<const Tuned*>(context);
  const Choice* const choice =
      choose(tuned.choices, function, tuned.ranks, static_cast<std::int64_t>(bytes));
  if (choice == nullptr) return kSuccess;
  if (!apply(*choice, reinterpret_cast<float*>(costs), algorithms, protocols)) return kSuccess;
  if (choice->channels) *channels = *choice->channels;
  return kSuccess;
}

Result end_tuning(void* context) {
  delete static_cast<Tuned*>(context);
  return kSuccess;
}

// ---- profiler

struct Profiled {
  int ranks = 0;
};
struct Counted {
  std::int64_t calls = 0, bytes = 0;   // that each rank contributed
};
// Call, ranks, algorithm, protocol, channels.
using Kind = std::tuple<std::string, int, std::string, std::string, int>;

std::mutex counting;
std::map<Kind, Counted>& counted() {
  static std::map<Kind, Counted> all;
  return all;
}

std::string lower(const char* text) {
  std::string all = text != nullptr ? text : "unknown";
  for (char& c : all) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return all;
}

// Bytes of "ncclFloat32", "ncclBfloat16", "ncclUint8" and the like.
std::int64_t bytes_of(const char* datatype) {
  const std::string name = datatype != nullptr ? datatype : "";
  for (const auto& [bits, bytes] : {std::pair("64", 8), {"32", 4}, {"16", 2}})
    if (name.ends_with(bits)) return bytes;
  if (name == "ncclHalf") return 2;
  if (name == "ncclFloat" || name == "ncclInt") return 4;
  return name == "ncclDouble" ? 8 : 1;
}

Result begin_profile(void** context, int* wanted, const char*, std::uint64_t, int, int ranks, int,
                     Log) {
  *context = new (std::nothrow) Profiled{ranks};
  *wanted = kCollectiveEvent;
  return *context != nullptr ? kSuccess : kSystemError;
}

Result start_event(void* context, void** event, Event* described) try {
  *event = nullptr;
  if (described->type != kCollectiveEvent) return kSuccess;
  const auto& c = described->collective;
  const Kind kind{c.function != nullptr ? c.function : "unknown",
                  static_cast<const Profiled*>(context)->ranks, lower(c.algorithm),
                  lower(c.protocol), c.channels};
  const std::scoped_lock lock(counting);
  Counted& all = counted()[kind];
  ++all.calls;
  all.bytes += static_cast<std::int64_t>(c.count) * bytes_of(c.datatype);
  return kSuccess;
} catch (const std::exception&) {
  return kSystemError;
}

Result stop_event(void*) { return kSuccess; }
Result record_state(void*, int, void*) { return kSuccess; }
Result end_profile(void* context) {
  delete static_cast<Profiled*>(context);
  return kSuccess;
}

}  // namespace

#define PLANNER_EXPORTED __attribute__((visibility("default")))

extern "C" {

PLANNER_EXPORTED Tuner ncclTunerPlugin_v4{"planner", begin_tuning, tune, end_tuning};
PLANNER_EXPORTED Profiler ncclProfiler_v4{"planner",  begin_profile, start_event,
                                          stop_event, record_state,  end_profile};

PLANNER_EXPORTED const char* planner_nccl_calls() {
  static std::string text;             // what is returned holds until the next call
  const std::scoped_lock lock(counting);
  text.clear();
  for (const auto& [kind, all] : counted()) {
    const auto& [call, ranks, algorithm, protocol, channels] = kind;
    text += (text.empty() ? "" : "; ") + call + " of " + std::to_string(ranks) +
            " ranks by " + algorithm + ", " + protocol + ", " + std::to_string(channels) +
            " channels: " + std::to_string(all.calls) + " calls, " + std::to_string(all.bytes) +
            " bytes";
  }
  return text.c_str();
}

}  // extern "C"
