#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/mpi_launch.hpp"
#include "cli/output.hpp"
#include "cli/process.hpp"
#include "cli/rank_launch.hpp"
#include "cli/requirements.hpp"
#include "cli/step_trace.hpp"
#include "cli/tcp_launch.hpp"
#include "cli/training_options.hpp"
#include "cli/verbs.hpp"
#include "core/code.hpp"
#include "core/file.hpp"
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

constexpr std::size_t kMostHosts = std::size_t{16} << 20;  // bytes of a file of host names

struct ExecOptions {
  std::string plan;
  std::optional<std::string> backend, communicator, data, steps, candidate;
  std::optional<std::string> checkpoint_dir, checkpoint_every, graphs, attention, gelu,
      deterministic, tuned_products, device_times, device, nccl, deadline;
  TrainingWords training;
  StepTraceWords trace;
  std::optional<std::string> collectives, hostfile, links;
  bool progress = false, scale_down = false, skip_damaged = false;
};

// What runs it: of each the names that some binary takes.
void read_platform(const ExecOptions& options, RunRequest& request, core::Problems& problems) {
  request.backend = options.backend.value_or(request.backend);
  request.communicator = options.communicator.value_or(request.communicator);
  if (request.backend != "host" && request.backend != "cuda")
    problems.push_back({"--backend", "host or cuda", '"' + request.backend + '"', ""});
  constexpr std::array<std::string_view, 4> kCommunicators{"local", "mpi", "nccl", "tcp"};
  if (std::ranges::find(kCommunicators, request.communicator) == kCommunicators.end())
    problems.push_back({"--communicator",
                        "local (ranks are threads), tcp or mpi (processes), or nccl (processes "
                        "with a GPU each)",
                        '"' + request.communicator + '"', ""});
  if (request.communicator == "nccl" && request.backend != "cuda")
    problems.push_back({"--communicator nccl", "--backend cuda beside it",
                        "--backend " + request.backend, ""});
}

// What is said of the GPU that a process has, and of the library that joins several.
void read_devices(const ExecOptions& options, RunRequest& request, core::Problems& problems) {
  const bool nccl = request.communicator == "nccl";
  if (const auto device = whole_number(options.device, "--device", 0, problems)) {
    request.device = static_cast<int>(std::min<std::int64_t>(*device, 1 << 20));
    if (request.backend != "cuda")
      problems.push_back({"--device", "--backend cuda beside it", "--backend " + request.backend,
                          ""});
    if (nccl)
      problems.push_back({"--device", "ranks in one process", "--communicator nccl",
                          "leave it out: a rank's GPU is the one of its LOCAL_RANK"});
  }
  request.nccl = options.nccl.value_or("");
  if (options.deadline)
    if (const auto seconds = whole_number(options.deadline, "--deadline", 1, problems))
      request.deadline = core::Seconds(static_cast<double>(*seconds));
  for (const auto& [given, name] : {std::pair(options.nccl.has_value(), "--nccl"),
                                    std::pair(options.deadline.has_value(), "--deadline")})
    if (given && !nccl)
      problems.push_back({name, "--communicator nccl beside it",
                          "--communicator " + request.communicator, ""});
}

// Reads the options that only MPI or NCCL understands: problems beside another communicator.
void read_library(const ExecOptions& options, RunRequest& request, core::Problems& problems) {
  const bool nccl = request.communicator == "nccl";
  request.collectives = options.collectives.value_or(nccl ? "nccl" : request.collectives);
  request.hostfile = options.hostfile;
  if (options.hostfile)
    if (const auto hosts = core::read_file(*options.hostfile, kMostHosts); !hosts.ok())
      for (const core::Problem& p : hosts.problems())
        problems.push_back({"--hostfile " + p.where, p.expected, p.found, p.fix});
  const std::string library = nccl ? "nccl" : "mpi";
  const bool known = request.collectives == "own" || request.collectives == library ||
                     (nccl && request.collectives == "plan");
  if (!known)
    problems.push_back({"--collectives", "own or " + library + (nccl ? " or plan" : ""),
                        '"' + request.collectives + '"', ""});
  if (request.communicator == "mpi") return;
  if (nccl && !options.hostfile) return;
  for (const auto& [given, name] : {std::pair(options.collectives.has_value(), "--collectives"),
                                    std::pair(options.hostfile.has_value(), "--hostfile")})
    if (given && !(nccl && name == std::string_view("--collectives")))
      problems.push_back({name, "--communicator mpi beside it",
                          "--communicator " + request.communicator, ""});
}

// "plan", or "BANDWIDTH[,LATENCY]" of every pair.
void read_links(const ExecOptions& options, RunRequest& request, core::Problems& problems) {
  if (!options.links) return;
  if (request.communicator != "local" || request.backend != "host")
    problems.push_back({"--links", "ranks that are threads on the host",
                        "--backend " + request.backend + " --communicator " + request.communicator,
                        "leave --links out: those links are real"});
  EmulatedLinks links;
  links.of_plan = *options.links == "plan";
  if (!links.of_plan) {
    const auto comma = options.links->find(',');
    const auto bandwidth = core::parse_bandwidth(options.links->substr(0, comma), "--links");
    const auto latency = core::parse_duration(
        comma == std::string::npos ? "0s" : options.links->substr(comma + 1), "--links");
    if (bandwidth.ok() && latency.ok() && bandwidth->value() > 0) {
      links.bandwidth = *bandwidth;
      links.latency = *latency;
    } else {
      problems.push_back({"--links", "plan, or a bandwidth and perhaps a latency: 1GB/s,50us",
                          '"' + *options.links + '"', ""});
    }
  }
  request.links = links;
}

void read_trace(const ExecOptions& options, RunRequest& request, core::Problems& problems) {
  std::optional<StepTrace> trace = read_step_trace(options.trace, problems);
  if (!trace) return;
  request.trace = options.trace.file;
  request.trace_ops = trace->every_action;
  request.trace_choice = std::move(trace->choice);
  request.trace_words = options.trace.words();
}

// What a GPU alone has: `given` is one of `words`.
void read_of_gpu(const char* option, const std::optional<std::string>& given,
                 std::initializer_list<std::string_view> words, std::string& value,
                 const RunRequest& request, core::Problems& problems) {
  if (!given) return;
  value = *given;
  if (std::ranges::find(words, value) == words.end())
    problems.push_back({option, fmt::format("{}", fmt::join(words, ", ")), '"' + value + '"', ""});
  if (request.backend != "cuda")
    problems.push_back({option, "--backend cuda beside it", "--backend " + request.backend, ""});
}

void read_checkpoints(const ExecOptions& options, RunRequest& request, core::Problems& problems) {
  request.checkpoint_dir = options.checkpoint_dir;
  const auto every = whole_number(options.checkpoint_every, "--checkpoint-every", 1, problems);
  request.checkpoint_every = every.value_or(request.checkpoint_every);
  if (options.checkpoint_every && !options.checkpoint_dir)
    problems.push_back({"--checkpoint-every", "a --checkpoint-dir beside it", "none",
                        "name a folder: --checkpoint-dir DIR"});
  request.skip_damaged = options.skip_damaged;
  if (options.skip_damaged && !options.checkpoint_dir)
    problems.push_back({"--skip-damaged", "a --checkpoint-dir beside it", "none",
                        "name the folder to resume from: --checkpoint-dir DIR"});
}

RunRequest request_of(const ExecOptions& options, const OutputOptions& output,
                      core::Problems& problems) {
  RunRequest request;
  request.data = options.data.value_or(request.data);
  request.steps = whole_number(options.steps, "--steps", 1, problems).value_or(request.steps);
  core::Problems said;  // check_output says them
  const auto seed = whole_number(output.seed, "--seed", 0, said);
  if (seed) request.seed = static_cast<std::uint64_t>(*seed);
  request.training = read_training(options.training, problems);
  request.training_words = options.training.words();
  const auto candidate = whole_number(options.candidate, "--candidate", 0, problems);
  if (candidate && *candidate > 1 << 20)
    problems.push_back({"--candidate", "a row of the plan's alternatives", *options.candidate, ""});
  else if (candidate)
    request.candidate = static_cast<int>(*candidate);
  request.plan_file = options.plan;
  request.scale_down = options.scale_down;
  request.quiet = output.quiet;
  if (!output.quiet && (options.progress || stderr_is_terminal()))
    request.progress = step_writer(request.steps);
  read_platform(options, request, problems);
  read_library(options, request, problems);
  read_devices(options, request, problems);
  read_links(options, request, problems);
  read_trace(options, request, problems);
  read_of_gpu("--graphs", options.graphs, {"on", "off", "auto"}, request.graphs, request, problems);
  read_of_gpu("--attention-kernel", options.attention, {"own", "cudnn", "auto"}, request.attention,
              request, problems);
  read_of_gpu("--gelu", options.gelu, {"own", "product"}, request.gelu, request, problems);
  read_of_gpu("--deterministic", options.deterministic, {"on", "off"}, request.deterministic,
              request, problems);
  request.tuned_products = options.tuned_products;
  if (options.tuned_products && request.backend != "cuda")
    problems.push_back({"--tuned-products", "--backend cuda beside it",
                        "--backend " + request.backend, ""});
  read_of_gpu("--device-times", options.device_times, {"events", "cupti"}, request.device_times,
              request, problems);
  read_checkpoints(options, request, problems);
  return request;
}

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

void add_options(OptionSet& set, ExecOptions& options, OutputOptions& output) {
  set.positional("PLAN", options.plan, "file written by planner --out");
  set.group("Run");
  set.text("--backend", options.backend, "NAME", "host (default) or cuda");
  set.text("--communicator", options.communicator, "NAME",
           "local (default): ranks are threads; tcp, mpi: processes; nccl: processes with a GPU "
           "each");
  set.text("--collectives", options.collectives, "WHOSE",
           "own: the plan's algorithms; mpi, nccl: the library's (default over nccl); "
           "plan: NCCL's, told to run what the plan assumes");
  set.text("--device", options.device, "N",
           "the GPU to use, of those that the driver shows (0); over nccl LOCAL_RANK says which");
  set.text("--nccl", options.nccl, "PATH",
           "NCCL's library (libnccl.so.2, where the loader finds it)");
  set.text("--deadline", options.deadline, "SECONDS",
           "over nccl: end the run when a step takes longer (1800)");
  set.text("--links", options.links, "HOW",
           "emulate slower links: plan (those of its machine, and how slow its slower kinds of "
           "GPUs are), or 1GB/s,50us for every pair");
  set.text("--hostfile", options.hostfile, "FILE", "machines for mpirun to start ranks on");
  set.text("--data", options.data, "FILE",
           "synthetic (default), or a file: llm.c's tokens, or any text as one token per byte");
  set.text("--steps", options.steps, "N", "steps to run, those before a checkpoint included (3)");
  set.flag("--scale-down", options.scale_down,
           "run a small job of the same strategy: smaller batch, sequence and, if it must, model");
  set.text("--candidate", options.candidate, "N", "0: the chosen; N: the N-th alternative");
  set.text("--checkpoint-dir", options.checkpoint_dir, "DIR",
           "keep checkpoints there, and resume from the last complete one");
  set.text("--checkpoint-every", options.checkpoint_every, "N",
           "steps between two checkpoints (1)");
  set.flag("--skip-damaged", options.skip_damaged,
           "resume from the last checkpoint that is whole; damaged ones after it are kept under "
           "another name");
  set.text("--graphs", options.graphs, "WHEN",
           "on a GPU: replay steps as CUDA graphs: on (over NCCL, too), off, or auto (default): "
           "where a plan of one rank is launch-bound");
  set.text(
      "--attention-kernel", options.attention, "WHOSE",
      "on a GPU: auto (default): cuDNN's where that is installed; cudnn: not without it; own: not "
      "cuDNN's");
  set.text("--deterministic", options.deterministic, "WHICH",
           "on a GPU: on (default): the same run gives the same bits; off: attention gradients and "
           "matrix products as they are fastest");
  set.text("--tuned-products", options.tuned_products, "FILE",
           "on a GPU: each matrix product takes the fastest of eight algorithms; what is timed is "
           "kept in FILE, so that later runs with it have the same bits");
  set.text(
      "--gelu", options.gelu, "WHERE",
      "on a GPU: product (default): in the epilogue of the matrix product, where the library has "
      "that; own: a kernel of its own");
  set.text(
      "--device-times", options.device_times, "BY",
      "on a GPU, how the last step is timed: events (default), or cupti: kernel by kernel too, "
      "in the record and the trace");
  set.flag("--progress", options.progress, "report each step, even where no terminal reads it");
  add_training_options(set, options.training);
  add_step_trace_options(set, options.trace, "write a trace of the last step");
  add_output_options(set, output, "the record of the run");
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
  add_options(set, options, output);
  const auto parsed = set.parse(whole.subspan(std::min<std::size_t>(whole.size(), 1)));
  return parsed.ok() && !parsed->has_value() ? options.plan : "";
}

int exec_verb(Arguments arguments, const Runner& runner, Arguments whole) {
  const bool mpi = asks_for_communicator(whole, "mpi");
  const bool tcp = asks_for_communicator(whole, "tcp");
  const bool nccl = asks_for_communicator(whole, "nccl");
  const bool joins = (mpi && joins_mpi_job()) || ((tcp || nccl) && joins_tcp_job());
  const std::string_view ranks = mpi ? kMpiBinary : nccl ? kCudaBinary : kHostBinary;
  if (joins && binary_name() != ranks) return hand_over(ranks, whole);
  if (const auto other = other_binary(arguments, static_cast<bool>(runner));
      other && !mpi && !tcp && !nccl)
    return hand_over(*other, whole);
  ExecOptions options;
  OutputOptions output;
  OptionSet set("exec", kExecPurpose, kExecExamples);
  add_options(set, options, output);
  if (const auto ended = ended_by(set, arguments)) return *ended;

  core::Problems problems;
  const RunRequest request = request_of(options, output, problems);
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
  const Runner launcher = mpi ? Runner(launch_mpi) : tcp || nccl ? Runner(launch_tcp) : runner;
  return run(*plan, request, output, launcher, joins);
}

}  // namespace cli
