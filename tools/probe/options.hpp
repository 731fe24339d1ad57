#pragma once
// The command line of planner-probe: text in, Options or every problem at once out. Touches
// neither files nor devices. Thread-safe.

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace probe {

// In the order in which they run: `context` wants an untouched process, `clock` and `nccl` leave
// the card warm and come last.
inline constexpr std::array<std::string_view, 8> kSections{
    "environment", "context", "pool", "launch", "copy", "gemm", "clock", "nccl"};

struct Options {
  std::string out = "probe.json";
  std::vector<std::string> sections{kSections.begin(), kSections.end()};
  bool quick = false;
  bool help = false;
  int device = 0;      // CUDA ordinal
  int nccl_ranks = 2;  // processes that share the card in section nccl
};

struct OptionProblem {
  std::string where;     // "--device"
  std::string expected;  // "an integer from 0 to 63"
  std::string found;     // "\"x\""
  std::string fix;       // "write --device 0"
};

using ParsedOptions = std::variant<Options, std::vector<OptionProblem>>;

// `arguments` without the program name. Options are written `--name value` or `--name=value`.
ParsedOptions parse_options(std::span<const std::string> arguments);

// "planner-probe: --device: expected ..., found ...; fix"
std::string to_text(const OptionProblem& problem);

// What --help prints.
std::string_view help_text();

}  // namespace probe
