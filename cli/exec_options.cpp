#include "cli/exec_options.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/process.hpp"
#include "core/file.hpp"
#include "core/parse_units.hpp"

namespace cli {
namespace {

constexpr std::size_t kMostHosts = std::size_t{16} << 20;  // bytes of a file of host names

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
                          "leave it out: a rank has the GPU of its number on its machine"});
  }
  request.nccl = options.nccl.value_or("");
  request.rank_threads = options.rank_threads;
  request.nccl_windows = options.nccl_windows;
  if (options.nccl_windows && request.collectives == "plan")
    problems.push_back({"--nccl-windows", "--collectives nccl or own", "--collectives plan",
                        "leave one of them out: NCCL asks no tuner for sums in windows"});
  if (options.deadline)
    if (const auto seconds = whole_number(options.deadline, "--deadline", 1, problems))
      request.deadline = core::Seconds(static_cast<double>(*seconds));
  for (const auto& [given, name] : {std::pair(options.nccl.has_value(), "--nccl"),
                                    std::pair(options.deadline.has_value(), "--deadline"),
                                    std::pair(options.rank_threads, "--rank-threads"),
                                    std::pair(options.nccl_windows, "--nccl-windows")})
    if (given && !nccl)
      problems.push_back({name, "--communicator nccl beside it",
                          "--communicator " + request.communicator, ""});
}

// Reads the options that only MPI or NCCL understands. With another communicator they are problems.
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

}  // namespace

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

void add_exec_options(OptionSet& set, ExecOptions& options, OutputOptions& output) {
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
  set.flag("--rank-threads", options.rank_threads,
           "over nccl: ranks are threads of one process, on one machine");
  set.text("--nccl", options.nccl, "PATH",
           "NCCL's library (libnccl.so.2, where the loader finds it)");
  set.flag("--nccl-windows", options.nccl_windows,
           "over nccl: buffers are symmetric windows, where NCCL (2.27) and the GPUs have them");
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

bool asks_for_rank_threads(Arguments whole) {
  return !whole.empty() && whole.front() == "exec" &&
         std::ranges::find(whole, "--rank-threads") != whole.end();
}

}  // namespace cli
