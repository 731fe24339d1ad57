#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/output.hpp"
#include "cli/process.hpp"
#include "cli/sandbox.hpp"
#include "cli/verbs.hpp"
#include "core/code.hpp"
#include "core/json.hpp"
#include "core/parse_units.hpp"
#include "core/untrusted.hpp"
#include "exec/checkpoint/verify.hpp"

namespace cli {
namespace {

constexpr std::string_view kVerifyPurpose =
    "Reads every checkpoint in a folder and says which of them a run would refuse. It checks the\n"
    "manifest, and each file's size, digest, rank and step. It changes nothing.";
constexpr std::string_view kVerifyExamples =
    "  planner verify kept                  # the --checkpoint-dir of planner exec\n"
    "  planner verify kept --json";

std::vector<std::string> lines_of(const core::Problems& problems) {
  std::vector<std::string> lines;
  for (const core::Problem& p : problems) lines.push_back(core::to_text(p));
  return lines;
}

std::string page(const std::vector<exec::HeldStep>& steps) {
  std::string text;
  for (const exec::HeldStep& s : steps) {
    text += fmt::format("{}: ", core::visible(s.folder));
    if (s.problems.empty())
      text += fmt::format("whole: after step {}, {} rank{}, {}\n", s.steps_done, s.ranks,
                          s.ranks == 1 ? "" : "s", core::to_text(s.bytes));
    else
      text += fmt::format("refused\n  {}\n", fmt::join(lines_of(s.problems), "\n  "));
  }
  return text;
}

// A run goes on from the last step that is whole; past damaged ones where it is told to.
std::string next_of(const std::string& folder, const std::vector<exec::HeldStep>& steps) {
  std::int64_t done = 0;
  for (const exec::HeldStep& s : steps)
    if (s.problems.empty()) done = std::max(done, s.steps_done);
  if (done == 0) return "";
  const bool skips = !steps.back().problems.empty();
  return next_text({{core::code("planner exec plan.json --checkpoint-dir {}{} --steps {}",
                                core::Code::shell(folder),
                                core::Code::own(skips ? " --skip-damaged" : ""), done + 10),
                     fmt::format("goes on after step {}, with the plan it was trained by", done)}});
}

std::string json(const std::string& folder, const std::vector<exec::HeldStep>& steps) {
  core::Json all = core::Json::array();
  for (const exec::HeldStep& s : steps) {
    core::Json trained = core::Json::object();
    for (const auto& [what, value] : s.trained_on) trained.set(what, value);
    all.push_back(core::Json::object({{"folder", s.folder},
                                      {"steps_done", s.steps_done},
                                      {"ranks", s.ranks},
                                      {"bytes", s.bytes.value()},
                                      {"problems", core::Json::array_of(lines_of(s.problems))},
                                      {"trained_on", std::move(trained)}}));
  }
  return core::dump(core::Json::object(
             {{"schema", "verify/1"}, {"folder", folder}, {"steps", std::move(all)}})) +
         '\n';
}

}  // namespace

int verify_verb(Arguments arguments) {
  std::string folder;
  std::optional<std::string> sandbox;
  OutputOptions output;
  OptionSet set("verify", kVerifyPurpose, kVerifyExamples);
  set.positional("FOLDER", folder, "the --checkpoint-dir of planner exec");
  add_output_options(set, output, "the steps and their problems (verify/1)");
  add_sandbox_option(set, sandbox);
  if (const auto ended = ended_by(set, arguments)) return *ended;
  if (const core::Status inside = enter_sandbox(sandbox, {output.out}); !inside.ok())
    return refuse(inside.problems());
  if (const core::Status target = check_output(output); !target.ok())
    return refuse(target.problems());
  const auto steps = exec::verify(folder);
  if (!steps.ok()) return refuse(steps.problems());
  const core::Status delivered =
      deliver(output, json(folder, *steps),
              [&] { return page(*steps) + next_of(folder, *steps); });
  if (!delivered.ok()) return refuse(delivered.problems());
  const auto refused = std::ranges::count_if(
      *steps, [](const exec::HeldStep& s) { return !s.problems.empty(); });
  if (refused == 0 && !steps->empty()) return kDone;
  write_reason(steps->empty() ? fmt::format("{}: no complete step is there", folder)
                              : fmt::format("{}: {} of {} steps refused", folder, refused,
                                            steps->size()));
  return kAnswerIsNo;
}

}  // namespace cli
