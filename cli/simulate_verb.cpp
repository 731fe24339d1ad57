#include <fmt/format.h>

#include "cli/failure_options.hpp"
#include "cli/number_list.hpp"
#include "cli/output.hpp"
#include "cli/page_form.hpp"
#include "cli/process.hpp"
#include "cli/simulate_traces.hpp"
#include "cli/variation_options.hpp"
#include "cli/step_trace.hpp"
#include "cli/verbs.hpp"
#include "cli/version.hpp"
#include "core/file.hpp"
#include "planner/plan/simulate.hpp"
#include "reports/html/build_page.hpp"
#include "reports/simulation_text.hpp"

namespace cli {
namespace {

constexpr std::string_view kSimulatePurpose =
    "Simulates a step of a plan, rank by rank: where every microsecond goes.";
constexpr std::string_view kSimulateExamples =
    "  planner simulate plan.json --trace trace.json      # open in ui.perfetto.dev\n"
    "  planner simulate plan.json --trace step.pftrace --ranks 0-3 --micro-batches 0..3\n"
    "  planner simulate plan.json --straggler rank=3,slowdown=1.5\n"
    "  planner simulate plan.json --fabric dgx-superpod --report links.html  # load of every link\n"
    "  planner simulate plan.json --chakra traces && planner simulate traces\n"
    "  planner simulate plan.json --mtbf 50000h --save 60s --restart 10min --scale 1,2,4,8,16";

struct SimulateWords {
  std::string plan;
  ChakraWords chakra;
  TraceWords traces;
  StepTraceWords trace;
  std::optional<std::string> candidate, jitter, collectives, links, fabric, report;
  FailureWords failures;
  std::optional<std::string> scale, sample_steps, threads;
  std::vector<std::string> stragglers, weak_links;
  bool unfold = false;
};

// A rank and a number: "rank=3,slowdown=1.5".
struct RankValue {
  int rank = 0;
  double value = 0;
};
std::optional<RankValue> rank_value(std::string_view text, std::string_view key) {
  const std::size_t comma = text.find(',');
  if (comma == std::string_view::npos || !text.starts_with("rank=")) return std::nullopt;
  const std::string_view rest = text.substr(comma + 1);
  if (!rest.starts_with(key) || rest.size() <= key.size() || rest[key.size()] != '=')
    return std::nullopt;
  const auto rank = parse_decimal(text.substr(5, comma - 5));
  const auto value = parse_decimal(rest.substr(key.size() + 1));
  if (!rank || !value || !(*rank >= 0 && *rank <= 1 << 24) || *rank != static_cast<int>(*rank))
    return std::nullopt;
  return RankValue{static_cast<int>(*rank), *value};
}

void read_stragglers(const SimulateWords& words, planner::SimulateOptions& o,
                     core::Problems& problems) {
  for (const std::string& text : words.stragglers) {
    if (is_random(text)) {
      if (const auto kind = read_random_straggler(text, problems)) o.random.push_back(*kind);
      continue;
    }
    const auto one = rank_value(text, "slowdown");
    if (one && one->value >= 1 && one->value <= 1000)
      o.stragglers.push_back({one->rank, one->value});
    else
      problems.push_back({"--straggler", "rank=R, or random=SHARE, then slowdown=X from 1 to 1000",
                          '"' + text + '"', "write --straggler rank=3,slowdown=1.5"});
  }
}

// What of the links is asked for: any of it makes collectives flows.
void read_links(const SimulateWords& words, planner::SimulateOptions& o,
                core::Problems& problems) {
  if (words.collectives && *words.collectives != "timed" && *words.collectives != "flows")
    problems.push_back({"--collectives", "timed or flows", '"' + *words.collectives + '"', ""});
  if (words.links && *words.links != "shared" && *words.links != "exclusive")
    problems.push_back({"--links", "shared or exclusive", '"' + *words.links + '"', ""});
  std::vector<std::string> weak;       // of ranks that are named
  for (const std::string& text : words.weak_links) {
    if (!is_random(text))
      weak.push_back(text);
    else if (const auto kind = read_random_link(text, problems))
      o.random.push_back(*kind);
  }
  const bool of_links = words.links || words.fabric || !weak.empty();
  if (of_links && words.collectives == "timed")
    problems.push_back({"--collectives", "flows where links are asked about", "timed", ""});
  if (!of_links && words.collectives != "flows") return;
  o.flows.emplace();
  if (words.links == "exclusive") o.flows->sharing = engine::Sharing::exclusive;
  if (words.fabric) {
    core::Result<hw_profiles::Fabric> fabric = hw_profiles::find_fabric(*words.fabric);
    if (fabric.ok())
      o.fabric = std::move(fabric).value();
    else
      core::append(problems, fabric);
  }
  for (const std::string& text : weak) {
    const bool broken = text.find(',') == std::string::npos;
    const auto one = rank_value(broken ? text + ",share=0" : text, "share");
    if (one && one->value >= 0 && one->value <= 1)
      o.flows->weak.push_back({one->rank, one->value});
    else
      problems.push_back({"--link-down",
                          "rank=R, rank=R,share=X or random=SHARE,share=X, X from 0 to 1",
                          '"' + text + '"', "write --link-down rank=3,share=0.5"});
  }
}

// "1,2,4,8"
void read_scale(const SimulateWords& words, planner::SimulateOptions& o,
                core::Problems& problems) {
  if (!words.scale) return;
  std::string_view rest = *words.scale;
  while (true) {
    const std::size_t comma = rest.find(',');
    const auto n = parse_decimal(rest.substr(0, comma));
    if (!n || !(*n >= 1 && *n <= 1 << 20) || *n != static_cast<int>(*n) || o.scale.size() == 64) {
      problems.push_back({"--scale", "up to 64 numbers of data-parallel copies, as 1,2,4,8",
                          '"' + *words.scale + '"', ""});
      return;
    }
    o.scale.push_back(static_cast<std::int64_t>(*n));
    if (comma == std::string_view::npos) return;
    rest.remove_prefix(comma + 1);
  }
}

planner::SimulateOptions options_of(const SimulateWords& words, const OutputOptions& output,
                                    core::Problems& problems) {
  planner::SimulateOptions o;
  const auto candidate = whole_number(words.candidate, "--candidate", 0, problems);
  if (candidate && *candidate > 1 << 20)
    problems.push_back({"--candidate", "a row of the plan's alternatives", *words.candidate, ""});
  else
    o.candidate = static_cast<int>(candidate.value_or(0));
  o.unfold = words.unfold;
  core::Problems said;  // check_output says them
  if (const auto seed = whole_number(output.seed, "--seed", 0, said))
    o.seed = static_cast<std::uint64_t>(*seed);
  read_stragglers(words, o, problems);
  read_links(words, o, problems);
  read_scale(words, o, problems);
  if (const auto steps = whole_number(words.sample_steps, "--sample-steps", 1, problems))
    o.sample_steps = *steps;
  o.threads = thread_count(words.threads, problems);
  o.failures = read_failures(words.failures, o.flows.has_value(), problems);
  if (o.flows) o.checkpoint = read_checkpoint(words.failures, o.failures, problems);
  if (words.jitter) {
    const auto share = parse_decimal(*words.jitter);
    if (share && *share >= 0 && *share <= 1)
      o.jitter = *share;
    else
      problems.push_back({"--jitter", "a share of each kernel's time, 0 to 1",
                          '"' + *words.jitter + '"', "write --jitter 0.05"});
  }
  if (auto trace = read_step_trace(words.trace, problems))
    o.trace = engine::TraceOptions{
        trace->every_action ? engine::TraceDetail::op : engine::TraceDetail::block,
        std::move(trace->choice)};
  return o;
}

// What asks about a plan has no answer from traces, which say what each rank did and no more.
void refuse_beside_traces(const SimulateWords& words, core::Problems& problems) {
  const std::pair<const char*, bool> given[] = {
      {"--candidate", words.candidate.has_value()}, {"--jitter", words.jitter.has_value()},
      {"--collectives", words.collectives.has_value()}, {"--links", words.links.has_value()},
      {"--scale", words.scale.has_value()}, {"--straggler", !words.stragglers.empty()},
      {"--link-down", !words.weak_links.empty()}, {"--fabric", words.fabric.has_value()},
      {"--sample-steps", words.sample_steps.has_value()},
      {"--threads", words.threads.has_value()},
      {"--unfold", words.unfold}, {"--report", words.report.has_value()},
      {"--chakra", words.chakra.folder.has_value()},
      {"--chakra-ranks", words.chakra.ranks.has_value()}};
  const auto refuse = [&](const std::string& name) {
    problems.push_back({name, "a plan", "execution traces: " + words.plan,
                        "leave it out, or name a plan"});
  };
  for (const auto& [name, is] : given)
    if (is) refuse(name);
  for (const std::string& name : words.failures.given()) refuse(name);
  for (const std::string& name : words.trace.given()) refuse(name);
}

// Writes the answer as a page, if --report was given.
core::Status write_report(const SimulateWords& words, const OutputOptions& output,
                          const std::string& answer) {
  if (!words.report) return core::Done{};
  const core::Result<PageForm> form = page_form_of(words.report, std::nullopt, "--report");
  if (!form.ok()) return form.problems();
  std::vector<reports::html::Document> documents;
  auto document = reports::html::parse_document(answer, output.out.value_or(words.plan));
  if (!document.ok()) return document.problems();
  documents.push_back(std::move(document).value());
  const auto page = reports::html::build_page(
      documents, "planner " + std::string(version_text()), [](const std::string&) {});
  if (!page.ok()) return page.problems();
  return core::write_atomically(*words.report, page_text(*page, *form));
}

}  // namespace

int simulate_verb(Arguments arguments) {
  SimulateWords words;
  OutputOptions output;
  OptionSet set("simulate", kSimulatePurpose, kSimulateExamples);
  set.positional("PLAN", words.plan,
                 "file written by planner --out, or a folder of execution traces (Chakra)");
  set.group("Simulation");
  set.text("--candidate", words.candidate, "N", "0: the chosen; N: the N-th alternative");
  set.texts("--straggler", words.stragglers, "rank=R,slowdown=X",
            "a rank whose kernels take X times as long, or random=1%,...[,steps=N]; repeatable");
  set.text("--collectives", words.collectives, "HOW",
           "timed (default): each takes its predicted time; flows: messages share the links");
  set.text("--links", words.links, "HOW", "with flows: shared (default) or exclusive");
  set.text("--fabric", words.fabric, "NAME|FILE",
           "with flows: the switches between nodes, such as dgx-superpod (hw_profiles/fabrics)");
  set.texts("--link-down", words.weak_links, "rank=R[,share=X]",
            "a rank whose links keep the share X of their bandwidth, or random=...; repeatable");
  set.text("--jitter", words.jitter, "SHARE", "kernel times vary by this share");
  set.text("--sample-steps", words.sample_steps, "N",
           "steps to play where something is random (200, fewer of large plans)");
  set.text("--scale", words.scale, "N,N,...",
           "also with so many data-parallel copies: 1,2,4,8");
  set.flag("--unfold", words.unfold, "play every rank, even those that behave alike");
  set.text("--threads", words.threads, "N", "threads that play the step (all cores)");
  set.text("--report", words.report, "FILE",
           "also write the answer as a page: FILE.html, or FILE.md");
  add_failure_options(set, words.failures);
  add_step_trace_options(set, words.trace, "write a trace of the step");
  add_chakra_options(set, words.chakra);
  add_trace_options(set, words.traces);
  add_output_options(set, output, "the simulation");
  if (const auto ended = ended_by(set, arguments)) return *ended;

  core::Problems problems;
  if (const core::Status target = check_output(output); !target.ok())
    core::append(problems, target);
  if (names_traces(words.plan)) {
    refuse_beside_traces(words, problems);
    return simulate_traces(words.plan, words.traces, output, std::move(problems));
  }
  refuse_beside_plan(words.traces, problems);
  planner::SimulateOptions options = options_of(words, output, problems);
  if (const auto form = page_form_of(words.report, std::nullopt, "--report"); !form.ok())
    core::append(problems, form);
  ChakraFolder chakra(words.chakra, output.quiet);
  chakra.open(options, problems);
  const core::Result<planner::Plan> plan = read_plan(words.plan);
  if (!plan.ok())
    core::append(problems, plan);
  if (!problems.empty()) return refuse(problems);
  if (!plan->chosen) {
    write_reason(words.plan + ": the plan found no feasible strategy, there is nothing to play");
    return kAnswerIsNo;
  }
  ProgressLine progress(output.quiet);
  options.progress = [&](std::string_view done) { progress.show(done); };
  const core::Result<planner::Simulation> simulation = planner::simulate(*plan, options);
  progress.clear();
  if (pending_signal() != 0) return kFailed;  // the folder goes, then the process
  if (!simulation.ok()) return refuse(simulation.problems());
  if (const core::Status written = chakra.commit(simulation->chakra_groups); !written.ok())
    return refuse(written.problems());
  if (words.trace.file) {
    const core::Status written =
        core::write_atomically(*words.trace.file, simulation->trace.bytes);
    if (!written.ok()) return refuse(written.problems());
  }
  const std::string answer = planner::to_json_text(*simulation);
  if (const core::Status written = write_report(words, output, answer); !written.ok())
    return refuse(written.problems());
  const core::Status delivered = deliver(output, answer, [&] {
    return reports::simulation_text(*simulation, page_style()) +
           reports::next_text(*simulation, words.plan, words.trace.file, page_style());
  });
  return delivered.ok() ? kDone : refuse(delivered.problems());
}

}  // namespace cli
