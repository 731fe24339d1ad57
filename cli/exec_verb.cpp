#include <algorithm>

#include <fmt/format.h>

#include "cli/exec_options.hpp"
#include "cli/mpi_launch.hpp"
#include "cli/output.hpp"
#include "cli/process.hpp"
#include "cli/rank_launch.hpp"
#include "cli/requirements.hpp"
#include "cli/tcp_launch.hpp"
#include "cli/verbs.hpp"
#include "core/code.hpp"
#include "core/parse_units.hpp"
#include "exec/record/run_record.hpp"
#include "reports/run_text.hpp"

namespace cli {
namespace {

constexpr std::string_view kExecPurpose =
    "Runs a plan and records what it took: loss, memory, communication, time.";
constexpr std::string_view kExecExamples =
    "  planner exec plan.json --steps 10 --out run.json\n"
    "  planner exec plan.json --data corpus.txt --steps 100 --checkpoint-dir kept\n"
    "  planner exec plan.json --steps 100 --lr 6e-4 --warmup 10 --decay cosine --lr-end 6e-5\n"
    "  planner exec plan.json --scale-down                          # where the plan is too large\n"
    "  planner exec plan.json --links plan                          # waits for the plan's links\n"
    "  planner exec plan.json --communicator tcp                    # a process for each rank\n"
    "  planner exec plan.json --communicator mpi --hostfile hosts   # the same, over MPI\n"
    "  planner exec plan.json --backend cuda --communicator nccl    # the same, with a GPU each\n"
    "  torchrun --nproc-per-node 8 --no-python planner exec plan.json --communicator tcp\n"
    "  srun -n 8 planner exec plan.json --communicator tcp          # or started by a launcher";

// The plan to run: with --scale-down a smaller one that stands for it.
core::Result<planner::ScaledPlan> job_of(const planner::Plan& plan, const RunRequest& request) {
  const planner::Candidate* const candidate =
      planner::candidate_of(plan, request.candidate.value_or(0));
  if (!request.scale_down || candidate == nullptr) return planner::ScaledPlan{plan, {}};
  return planner::scale_down(plan, *candidate);
}

// Before a run that may take a while: what it runs in place of the plan.
void say_what_runs(const planner::Plan& plan, const planner::ScaledPlan& job) {
  write_reason(job.figures.empty()
                   ? std::string("The job is small enough to run here as planned.")
                   : fmt::format("The plan for {} x {} is scaled down to run here: {}.", plan.gpus,
                                 plan.profile.gpu.name, planner::to_text(job.figures)));
}

std::string next_of(const RunRequest& request, const OutputOptions& output) {
  if (!output.out)
    return next_text({{"--out run.json", "keeps the record, for planner compare"}});
  const core::Code files =
      core::code("{} {}", core::Code::shell(request.plan_file), core::Code::shell(*output.out));
  return next_text(
      {{core::code("planner compare {}", files), "holds the run against the prediction"},
       {core::code("planner report {} --out page.html", files), "draws both"}});
}

int run(const planner::Plan& plan, RunRequest request, const OutputOptions& output,
        const Runner& runner, bool joins) try {
  const core::Result<planner::ScaledPlan> job = job_of(plan, request);
  if (!job.ok()) return refuse(job.problems());
  if (request.scale_down && !request.quiet && !joins) say_what_runs(plan, *job);
  const planner::Candidate* const planned =
      planner::candidate_of(plan, request.candidate.value_or(0));
  if (!job->figures.empty()) request.candidate.reset();  // the only one that it has
  core::Result<exec::RunRecord> record = runner(job->plan, request);
  if (!record.ok()) return refuse(record.problems());
  if (!job->figures.empty())
    record->scaled_from =
        exec::ScaledFrom{plan.model, plan.job, planned->strategy, job->figures};
  const core::Status delivered = deliver(output, exec::to_json_text(*record), [&] {
    return reports::run_text(*record, page_style()) + next_of(request, output);
  });
  return delivered.ok() ? kDone : refuse(delivered.problems());
} catch (const Ended& ended) {
  return ended.code;
}

}  // namespace

std::function<void(const StepProgress&)> step_writer(std::int64_t steps) {
  return [steps](const StepProgress& p) {
    write_reason(fmt::format("{}{} of {}: loss {:.5f}{}, lr {:.4g}, {}, {} tokens/s, {} live",
                             kProgressStart, p.step + 1, steps, p.loss,
                             p.share ? " (of one rank's samples)" : "", p.learning_rate,
                             core::to_text(core::Seconds(p.seconds)),
                             core::count_text(static_cast<std::int64_t>(p.tokens_per_second)),
                             core::to_text(p.live)));
  };
}

bool asks_for_communicator(Arguments whole, std::string_view name) {
  if (whole.empty() || whole.front() != "exec") return false;
  bool asks = false;
  for (std::size_t i = 1; i < whole.size(); ++i) {
    constexpr std::string_view kOption = "--communicator", kJoined = "--communicator=";
    const std::string_view word = whole[i];
    if (word.starts_with(kJoined)) asks = word.substr(kJoined.size()) == name;
    if (word == kOption && i + 1 < whole.size()) asks = whole[i + 1] == name;
  }
  return asks;
}

std::string plan_file_of(Arguments whole) {
  ExecOptions options;
  OutputOptions output;
  OptionSet set("exec", kExecPurpose, kExecExamples);
  add_exec_options(set, options, output);
  const auto parsed = set.parse(whole.subspan(std::min<std::size_t>(whole.size(), 1)));
  return parsed.ok() && !parsed->has_value() ? options.plan : "";
}

int exec_verb(Arguments arguments, const Runner& runner, Arguments whole) {
  const bool mpi = asks_for_communicator(whole, "mpi");
  const bool tcp = asks_for_communicator(whole, "tcp");
  const bool nccl = asks_for_communicator(whole, "nccl");
  const bool threads = nccl && asks_for_rank_threads(whole);
  const bool joins = (mpi && joins_mpi_job()) || ((tcp || nccl) && joins_tcp_job());
  const std::string_view ranks = mpi ? kMpiBinary : nccl ? kCudaBinary : kHostBinary;
  if (joins && binary_name() != ranks) return hand_over(ranks, whole);
  const bool launches = mpi || tcp || (nccl && !threads);
  if (const auto other = other_binary(arguments, static_cast<bool>(runner)); other && !launches)
    return hand_over(*other, whole);
  ExecOptions options;
  OutputOptions output;
  OptionSet set("exec", kExecPurpose, kExecExamples);
  add_exec_options(set, options, output);
  if (const auto ended = ended_by(set, arguments)) return *ended;

  core::Problems problems;
  const RunRequest request = request_of(options, output, problems);
  if (joins && request.rank_threads)
    problems.push_back({"--rank-threads", "a process that starts all ranks",
                        "one that a launcher started as one of them", "leave it out"});
  if (const core::Status target = check_output(output); !target.ok())
    core::append(problems, target);
  const core::Result<planner::Plan> plan = read_plan(options.plan);
  if (!plan.ok())
    core::append(problems, plan);
  if (!problems.empty()) return refuse(problems);
  if (!plan->chosen) {
    write_reason(options.plan + ": the plan found no feasible strategy, there is nothing to run");
    return kAnswerIsNo;
  }
  if (joins) return run(*plan, request, output, runner, joins);
  const Runner launcher = !launches ? runner : mpi ? Runner(launch_mpi) : Runner(launch_tcp);
  return run(*plan, request, output, launcher, joins);
}

}  // namespace cli
