#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <exception>

#include <fmt/format.h>

#include "cli/output.hpp"
#include "cli/process.hpp"
#include "cli/requirements.hpp"
#include "cli/verbs.hpp"

namespace cli {
namespace {

constexpr std::array<std::string_view, 19> kVerbs{
    "plan", "simulate", "exec", "compare", "report", "emit", "sweep", "min-gpus", "max-batch",
    "explain", "models", "gpus", "doctor", "bench", "validate", "verify", "fit", "calibrate",
    "completion"};

int unknown_verb(const std::string& word) {
  const std::string_view near = core::nearest(word, {kVerbs.begin(), kVerbs.end()});
  return refuse({{"command line", fmt::format("a verb ({})", fmt::join(kVerbs, ", ")),
                  fmt::format("\"{}\"", word),
                  near.empty() ? std::string("see planner --help")
                               : fmt::format("did you mean {}?", near)}});
}

// `calibrate --backend host` measures; without --backend it learns from runs.
bool names_backend(Arguments arguments) {
  return std::ranges::any_of(arguments, [](const std::string& word) {
    return word == "--backend" || word.starts_with("--backend=");
  });
}

int run_verb(Arguments whole, const Runner& runner, const HostCalibrator& calibrator);

constexpr std::string_view kReferenceHead =
    "# Command line\n\n"
    "Written by `planner help --markdown` from the options themselves; a test keeps it true\n"
    "(`UPDATE_GOLDEN=1` writes it anew). `planner VERB --help` prints the same for one verb.\n"
    "Exit codes: 0 done; 1 a valid question whose answer is no; 2 bad input; 3 failed while\n"
    "running; 130 interrupted.\n\n";

// `help VERB` is VERB --help; `help --markdown` is docs/cli.md.
int help_verb(Arguments rest, const Runner& runner, const HostCalibrator& calibrator) {
  const bool markdown = rest.size() == 1 && rest.front() == "--markdown";
  if (!markdown) {
    std::vector<std::string> words(rest.begin(), rest.end());
    words.emplace_back("--help");
    return run_verb(words, runner, calibrator);
  }
  if (const core::Status head = write_stdout(kReferenceHead); !head.ok())
    return refuse(head.problems());
  for (const std::string_view verb : kVerbs) {
    const std::vector<std::string> words{std::string(verb), std::string(kMarkdownHelp)};
    if (const int code = run_verb(words, runner, calibrator); code != kDone) return code;
  }
  const std::vector<std::string> words{std::string(kMarkdownHelp)};
  return calibrate_host_verb(words, calibrator, words);
}

int run_verb(Arguments whole, const Runner& runner, const HostCalibrator& calibrator) {
  if (whole.empty() || whole.front().starts_with("-")) return plan_verb(whole);
  const std::string& verb = whole.front();
  const Arguments rest = whole.subspan(1);
  if (verb == "plan") return plan_verb(rest);
  if (verb == "simulate") return simulate_verb(rest);
  if (verb == "exec") return exec_verb(rest, runner, whole);
  if (verb == "compare") return compare_verb(rest);
  if (verb == "report") return report_verb(rest);
  if (verb == "emit") return emit_verb(rest);
  if (verb == "sweep") return sweep_verb(rest);
  if (verb == "min-gpus") return min_gpus_verb(rest);
  if (verb == "max-batch") return max_batch_verb(rest);
  if (verb == "explain") return explain_verb(rest, runner, whole);
  if (verb == "models") return models_verb(rest);
  if (verb == "gpus") return gpus_verb(rest);
  if (verb == "doctor") return doctor_verb(rest);
  if (verb == "bench") return bench_verb(rest);
  if (verb == "validate") return validate_verb(rest);
  if (verb == "verify") return verify_verb(rest);
  if (verb == "fit") return fit_verb(rest);
  if (verb == "calibrate" && names_backend(rest))
    return calibrate_host_verb(rest, calibrator, whole);
  if (verb == "calibrate") return calibrate_verb(rest);
  if (verb == "completion") return completion_verb(rest, kVerbs);
  if (verb == "help") return help_verb(rest, runner, calibrator);
  return unknown_verb(verb);
}

}  // namespace

std::optional<std::string_view> other_binary(Arguments arguments, bool runs) {
  if (arguments.size() == 1 && arguments.front() == kMarkdownHelp) return std::nullopt;
  bool cuda = false;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const bool apart = arguments[i] == "--backend" && i + 1 < arguments.size();
    cuda = cuda || arguments[i] == "--backend=cuda" || (apart && arguments[i + 1] == "cuda");
  }
  const bool has_cuda = binary_name() == kCudaBinary;
  if (cuda != has_cuda && (cuda || runs)) return cuda ? kCudaBinary : kHostBinary;
  return runs ? std::nullopt : std::optional(kHostBinary);
}

int hand_over(std::string_view name, Arguments whole) {
  const Needs needs = name == kCudaBinary  ? Needs::cuda
                      : name == kMpiBinary ? Needs::mpi
                                           : Needs::host;
  // It may be here and lack a library, which is said by a loader in words that help nobody.
  if (needs == Needs::cuda && !starts(name)) return refuse(missing_for(needs));
  const std::string path = sibling(name);
  std::vector<std::string> words{"planner"};
  words.insert(words.end(), whole.begin(), whole.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execv(path.c_str(), pointers.data());
  const int error = errno;
  const core::Problems problems = missing_for(needs);
  if (!problems.empty()) return refuse(problems);
  write_reason(fmt::format("{}: {}", path, std::strerror(error)));
  return kFailed;
}

int run_planner(int count, char** arguments, const Runner& runner,
                const HostCalibrator& calibrator) {
  prepare_process();
  const std::vector<std::string> words(arguments + std::min(count, 1), arguments + count);
  try {
    return run_verb(words, runner, calibrator);
  } catch (const std::bad_alloc&) {
    write_reason("out of memory");
  } catch (const std::exception& error) {
    write_reason(error.what());
  }
  return kFailed;
}

}  // namespace cli
