#include "tools/probe/options.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

#include "tools/probe/json.hpp"

namespace probe {
namespace {

constexpr std::string_view kHelp =
    R"(planner-probe: measures one NVIDIA GPU and writes what it found as JSON (schema probe/1)

Usage: planner-probe [--out FILE] [--sections A,B,...] [--quick] [--device N] [--nccl-ranks N]

  --out FILE        where the result goes, rewritten after every section (default probe.json)
  --sections LIST   any of environment,context,pool,launch,copy,gemm,clock,nccl (default all)
  --quick           fewer points, under a minute; without it under six minutes
  --device N        CUDA ordinal of the GPU (default 0)
  --nccl-ranks N    processes that share the GPU in section nccl, 2 to 16 (default 2)
  --help            this text

Exit codes: 0 every section measured; 2 bad option or file; 3 no usable GPU (no file is written),
or a section failed (its "error" says why, the others are in the file); 130 interrupted.
)";

constexpr std::array<std::string_view, 6> kNames{"--out",    "--sections",   "--quick",
                                                 "--device", "--nccl-ranks", "--help"};

struct Parser {
  Options options;
  std::vector<OptionProblem> problems;

  void number(std::string_view name, const std::string& text, int low, int high, int& into) {
    int value = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error == std::errc() && stop == end && value >= low && value <= high) {
      into = value;
      return;
    }
    const std::string range = std::to_string(low) + " to " + std::to_string(high);
    problems.push_back({std::string(name), "an integer from " + range, probe::quoted(text),
                        "write " + std::string(name) + " " + std::to_string(into)});
  }

  void sections(const std::string& text) {
    std::vector<std::string> wanted;
    for (std::size_t at = 0; at <= text.size();) {
      const std::size_t comma = std::min(text.find(',', at), text.size());
      wanted.push_back(text.substr(at, comma - at));
      at = comma + 1;
    }
    options.sections.clear();
    for (const std::string_view known : kSections) {  // the order of running, not of writing
      if (std::erase(wanted, known) > 0) options.sections.emplace_back(known);
    }
    for (const std::string& unknown : wanted) {
      problems.push_back({"--sections",
                          "names among environment,context,pool,launch,copy,gemm,clock,nccl",
                          probe::quoted(unknown), "separate names by commas, without spaces"});
    }
  }

  void take(std::string_view name, const std::string& value) {
    if (name == "--out") {
      options.out = value;
      if (!value.empty()) return;
      problems.push_back({"--out", "a file name", "\"\"", "write --out probe.json"});
    } else if (name == "--sections") {
      sections(value);
    } else if (name == "--device") {
      number(name, value, 0, 63, options.device);
    } else {
      number(name, value, 2, 16, options.nccl_ranks);
    }
  }

  bool flag(std::string_view name) {
    options.quick = options.quick || name == "--quick";
    options.help = options.help || name == "--help";
    return name == "--quick" || name == "--help";
  }
};

}  // namespace

ParsedOptions parse_options(std::span<const std::string> arguments) {
  Parser parser;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    const std::size_t equals = word.find('=');
    const std::string name = word == "-h" ? "--help" : word.substr(0, equals);
    if (std::find(kNames.begin(), kNames.end(), name) == kNames.end()) {
      parser.problems.push_back({"command line", "an option of planner-probe", probe::quoted(word),
                                 "planner-probe --help lists them"});
      continue;
    }
    const bool attached = equals != std::string::npos;
    if (!attached && parser.flag(name)) continue;
    if (attached && parser.flag(name)) {
      parser.problems.push_back({name, "no value", probe::quoted(word), "write " + name});
    } else if (attached) {
      parser.take(name, word.substr(equals + 1));
    } else if (i + 1 < arguments.size()) {
      parser.take(name, arguments[++i]);
    } else {
      parser.problems.push_back(
          {name, "a value", "the end of the line", "write " + name + " VALUE"});
    }
  }
  if (!parser.problems.empty()) return parser.problems;
  return parser.options;
}

std::string to_text(const OptionProblem& problem) {
  return "planner-probe: " + problem.where + ": expected " + problem.expected + ", found " +
         problem.found + "; " + problem.fix;
}

std::string_view help_text() { return kHelp; }

}  // namespace probe
