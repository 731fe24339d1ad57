#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "cli/call.hpp"
#include "cli/kept_output.hpp"
#include "cli/man_page.hpp"
#include "cli/output.hpp"
#include "cli/process.hpp"
#include "cli/requirements.hpp"
#include "cli/verbs.hpp"
#include "cli/version.hpp"
#include "core/json.hpp"

namespace cli {
namespace {

constexpr std::array<std::string_view, 20> kVerbs{
    "plan", "simulate", "exec", "compare", "report", "emit", "import", "sweep", "min-gpus",
    "max-batch", "explain", "models", "gpus", "doctor", "bench", "validate", "verify", "fit",
    "calibrate", "completion"};

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
    "{}\n";

// What each verb says of itself in a form (kMarkdownHelp, kJsonHelp), in their order.
std::vector<std::string> described_verbs(std::string_view form, const Runner& runner,
                                         const HostCalibrator& calibrator) {
  std::vector<std::string> texts;
  const auto keep = [&](const auto& say) {
    KeptOutput kept;
    const KeepOutput here(kept);
    const int code = say();
    PLANNER_CHECK(code == kDone, kept.reasons);
    texts.push_back(std::move(kept.out));
  };
  const std::vector<std::string> alone{std::string(form)};
  for (const std::string_view verb : kVerbs)
    keep([&] {
      const std::vector<std::string> words{std::string(verb), alone.front()};
      return run_verb(words, runner, calibrator);
    });
  keep([&] { return calibrate_host_verb(alone, calibrator, alone); });
  return texts;
}

// `help VERB` is VERB --help; `help --markdown` is docs/cli.md; `help --man` the manual page; `help
// --json` is that for programs.
int help_verb(Arguments rest, const Runner& runner, const HostCalibrator& calibrator) {
  const std::string_view form = rest.size() == 1 ? std::string_view(rest.front()) : "";
  if (form != "--markdown" && form != "--json" && form != "--man") {
    std::vector<std::string> words(rest.begin(), rest.end());
    words.emplace_back("--help");
    return run_verb(words, runner, calibrator);
  }
  std::string text;
  if (form == "--markdown") {
    text = fmt::format(kReferenceHead, kExitCodes);
    for (const std::string& verb : described_verbs(kMarkdownHelp, runner, calibrator)) text += verb;
  } else {
    core::Json verbs = core::Json::array();
    for (const std::string& verb : described_verbs(kJsonHelp, runner, calibrator))
      verbs.push_back(core::parse_json(verb, "help").value());
    text = form == "--man"
               ? man_page(verbs, version_text())
               : core::dump(core::Json::object(
                     {{"schema", "options/1"}, {"verbs", std::move(verbs)}})) +
                     '\n';
  }
  const core::Status shown = write_stdout(text);
  return shown.ok() ? kDone : refuse(shown.problems());
}

// Verbs that start other programs, or whose answer is about the process they run in.
constexpr std::array<std::string_view, 3> kOwnProcess{"exec", "bench", "doctor"};

core::Problem own_process_only(Arguments whole) {
  return {fmt::format("planner {}", whole.empty() ? "" : whole.front()), "a process of its own",
          "a call inside another program", "run the planner binary in a shell"};
}

int run_verb(Arguments whole, const Runner& runner, const HostCalibrator& calibrator) {
  if (whole.empty() || whole.front().starts_with("-")) return plan_verb(whole);
  const std::string& verb = whole.front();
  const Arguments rest = whole.subspan(1);
  const bool kept = kept_output() != nullptr && !is_help_form(rest);
  if (kept && std::ranges::find(kOwnProcess, verb) != kOwnProcess.end())
    return refuse({own_process_only(whole)});
  if (verb == "plan") return plan_verb(rest);
  if (verb == "simulate") return simulate_verb(rest);
  if (verb == "exec") return exec_verb(rest, runner, whole);
  if (verb == "compare") return compare_verb(rest);
  if (verb == "report") return report_verb(rest);
  if (verb == "emit") return emit_verb(rest);
  if (verb == "import") return import_verb(rest);
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
  if (is_help_form(arguments)) return std::nullopt;
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
  if (kept_output() != nullptr) return refuse({own_process_only(whole)});
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
  return guarded([&] { return run_verb(words, runner, calibrator); });
}

CallAnswer answer_call(const std::vector<std::string>& words, const core::Call& call,
                       std::function<void(std::string_view)> progress) {
  return answer_call_by([&] { return run_verb(words, {}, {}); }, call, std::move(progress));
}

}  // namespace cli
