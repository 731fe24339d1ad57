// libplanner-nccl.so: a plugin that NCCL loads (NCCL_TUNER_PLUGIN, NCCL_PROFILER_PLUGIN). As tuner
// it takes algorithms, protocols and channels from the file that PLANNER_NCCL_CHOICES names. As
// profiler it keeps what NCCL ran until the executor takes it by planner_nccl_take().
// Thread-safe.

#include <cctype>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
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

// A call, until the executor takes it.
struct Kept {
  std::string algorithm, protocol;
  int channels = 0;
  std::int64_t bytes = 0;
};

std::mutex keeping;
std::vector<Kept>& kept() {
  static std::vector<Kept> all;
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

Result begin_profile(void** context, int* wanted, const char*, std::uint64_t, int, int, int, Log) {
  *context = &kept();                  // none of a communicator's own
  *wanted = kCollectiveEvent;
  return kSuccess;
}

Result start_event(void*, void** event, Event* described) try {
  *event = nullptr;
  if (described->type != kCollectiveEvent) return kSuccess;
  const auto& c = described->collective;
  Kept one{lower(c.algorithm), lower(c.protocol), c.channels,
           static_cast<std::int64_t>(c.count) * bytes_of(c.datatype)};
  const std::scoped_lock lock(keeping);
  kept().push_back(std::move(one));
  return kSuccess;
} catch (const std::exception&) {
  return kSystemError;
}

Result stop_event(void*) { return kSuccess; }
Result record_state(void*, int, void*) { return kSuccess; }
Result end_profile(void*) { return kSuccess; }

}  // namespace

#define PLANNER_EXPORTED __attribute__((visibility("default")))

extern "C" {

PLANNER_EXPORTED Tuner ncclTunerPlugin_v4{"planner", begin_tuning, tune, end_tuning};
PLANNER_EXPORTED Profiler ncclProfiler_v4{"planner",  begin_profile, start_event,
                                          stop_event, record_state,  end_profile};

PLANNER_EXPORTED void planner_nccl_take(void* to, void (*each)(void* to, const Ran* ran)) {
  std::vector<Kept> all;
  {
    const std::scoped_lock lock(keeping);
    all.swap(kept());
  }
  for (const Kept& k : all) {
    const Ran ran{k.algorithm.c_str(), k.protocol.c_str(), k.channels, k.bytes};
    each(to, &ran);
  }
}

}  // extern "C"
