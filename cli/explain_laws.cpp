#include "cli/explain_laws.hpp"

#include <array>

#include <fmt/format.h>

#include "cli/gpu_count.hpp"
#include "cli/process.hpp"
#include "models/graph.hpp"
#include "reports/laws.hpp"

namespace cli {
namespace {

using reports::LawQuestion;
using reports::LawRun;

constexpr std::int64_t kMaxPlaces = 4096;

// 18,624 parameters: they divide evenly among 2, 3, 4, 6, 8 and 12, and a run takes milliseconds.
models::ModelSpec small_chain() {
  models::ModelSpec spec;
  spec.name = "chain-96";
  spec.family = models::Family::chain;
  spec.source = "our own: two dense layers of 96, for the laws of gradient exchange";
  spec.widths = {96, 96, 96};
  spec.layers = 2;
  spec.loss = models::Loss::squared_error;
  return spec;
}

// The question of one run: the same batch for every run, one sample per GPU.
core::Result<planner::Request> request_for(const planner::Request& base, LawRun run,
                                           const LawQuestion& question) {
  planner::Request request = base;
  const auto strategy = reports::law_strategy(run, question);
  request.gpus = strategy->gpus;
  for (const std::string& pin : strategy->pins)
    if (const core::Status done = request.constraints.pin(pin); !done.ok()) return done.problems();
  return request;
}

core::Result<std::optional<exec::RunRecord>> measure(const planner::Request& base, LawRun run,
                                                     const LawQuestion& question,
                                                     const Runner& runner) {
  if (!reports::law_strategy(run, question)) return std::optional<exec::RunRecord>();
  const core::Result<planner::Request> request = request_for(base, run, question);
  if (!request.ok()) return request.problems();
  const core::Result<planner::Plan> plan = planner::make_plan(*request);
  if (!plan.ok()) return plan.problems();
  if (!plan->chosen)
    return core::Problem{"explain laws", "a strategy that can be run", "none feasible",
                         "take fewer GPUs or a smaller model"};
  RunRequest how;
  how.steps = 1;
  core::Result<exec::RunRecord> record = runner(*plan, how);
  if (!record.ok()) return record.problems();
  return std::optional(std::move(record).value());
}

// Base of all runs: the model asked for or the small chain, in f32, one sample per GPU. Nothing
// else of the plan's options bears on the laws.
core::Result<planner::Request> base_request(const PlanOptions& asked, int gpus) {
  PlanOptions options;
  options.model = asked.model.value_or("chain");  // replaced below unless asked for
  options.recipe = "fp32";
  options.global_batch = std::to_string(gpus);
  options.gpu = asked.gpu.value_or("h100-sxm-80g");
  auto requests = requests_of(options);
  if (!requests.ok()) return requests.problems();
  planner::Request request = std::move(requests->front());
  if (!asked.model) request.model = small_chain();
  return request;
}

core::Result<LawQuestion> question_of(const PlanOptions& plan, const LawOptions& laws) {
  core::Problems problems;
  const std::int64_t gpus = whole_number(plan.gpus, "--gpus", 2, problems).value_or(4);
  const std::int64_t servers = whole_number(laws.servers, "--servers", 1, problems).value_or(2);
  if (gpus > kMaxPlaces || servers > kMaxPlaces)
    problems.push_back({"explain laws", "at most 4096 GPUs and 4096 servers", "more", ""});
  if (!problems.empty()) return problems;
  LawQuestion question;
  question.gpus = static_cast<int>(gpus);
  question.servers = static_cast<int>(servers);
  return question;
}

}  // namespace

int explain_laws(PlanOptions plan, const LawOptions& laws, const OutputOptions& output,
                 const Runner& runner) {
  if (const core::Status done = split_counted_gpu(plan); !done.ok())
    return refuse(done.problems());
  core::Result<LawQuestion> question = question_of(plan, laws);
  if (!question.ok()) return refuse(question.problems());
  const core::Result<planner::Request> base = base_request(plan, question->gpus);
  if (!base.ok()) return refuse(base.problems());
  models::GraphOptions shape;
  shape.seq_len = base->model.default_seq_len;
  const auto graph = models::build_graph(base->model, shape);
  if (!graph.ok()) return refuse(graph.problems());
  question->elements = models::parameter_count(*graph);

  std::array<std::optional<exec::RunRecord>, reports::kLawRuns> runs;
  for (int i = 0; laws.measure && i < reports::kLawRuns; ++i) {
    auto record = measure(*base, static_cast<LawRun>(i), *question, runner);
    if (!record.ok()) return refuse(record.problems());
    runs[static_cast<std::size_t>(i)] = std::move(record).value();
  }
  const std::vector<reports::LawRow> rows = reports::law_table(*question, runs);
  const core::Status delivered = deliver(output, reports::to_json_text(*question, rows),
                                         [&] {
        std::vector<reports::NextStep> next;
        if (!laws.measure)
          next.push_back({core::code("planner explain laws --gpus {} --servers {} --measure",
                                     question->gpus, question->servers),
                          "counts what a run sends"});
        next.push_back({"planner explain C4 --gpus 16", "one law, with its numbers"});
        return reports::laws_text(*question, rows) + next_text(next);
      });
  if (!delivered.ok()) return refuse(delivered.problems());
  for (const reports::LawRow& row : rows)
    if (row.measured && *row.measured != row.predicted) {
      write_reason(std::string(row.law) + " does not hold: measured is not what was predicted");
      return kAnswerIsNo;
    }
  return kDone;
}

}  // namespace cli
