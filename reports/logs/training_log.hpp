#pragma once
// A log that a framework wrote while it trained, a profile of torch's, a snapshot of its allocator,
// or a rank's Chakra execution trace: step times, and peak memory, each where it has that.
// The format is recognised by its lines; each names the code that writes it. Lines that say nothing
// of a step are passed over. Pure; thread-safe.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"
#include "core/units.hpp"

namespace reports::logs {

// What a log says of a step.
enum class Rate : std::uint8_t { seconds, samples_per_second, tokens_per_second_per_gpu };

// The names of the formats that are no text.
inline constexpr std::string_view kProfile = "torch.profiler", kSnapshot = "torch.cuda.memory",
                                  kExecutionTrace = "Chakra";

struct LoggedStep {
  int line = 0;
  double value = 0;                    // as the log's Rate says
};

// What the device of one rank did, a step: time in kernels of computation, in NCCL's, and in NCCL's
// while none of the others ran. NCCL's wait for other ranks.
struct DeviceTimes {
  core::Seconds compute{}, communication{}, exposed_communication{};
};

struct TrainingLog {
  std::string_view format;             // "Megatron-LM"
  std::string_view source;             // the code that writes such lines
  Rate rate{};
  std::vector<LoggedStep> steps;       // in the order of the file; of a snapshot none
  bool whole_run = false;              // one figure: the mean of all steps, the first ones too
  // torch's peaks, the greatest that any line states.
  std::optional<core::Bytes> allocated, reserved;
  std::optional<std::int64_t> global_batch;  // of every step that states it
  std::optional<DeviceTimes> device{};  // of profiles of a GPU, and of traces
  std::vector<std::string> notes{};    // what its figures are of, in sentences
};

// Problems: no line of a known format, a figure that cannot be (not finite, not above 0), a batch
// that changes; each with its line.
core::Result<TrainingLog> read_log(std::string_view text, const std::string& name);

}  // namespace reports::logs
