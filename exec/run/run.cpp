#include "exec/run/run.hpp"

#include <algorithm>
#include <chrono>
#include <set>

#include "core/file.hpp"
#include "core/thread.hpp"
#include "exec/checkpoint/checkpoint.hpp"
#include "exec/communicator/local.hpp"
#include "exec/interpret/interpreter.hpp"
#include "exec/run/device_times.hpp"
#include "exec/run/graphs.hpp"
#include "exec/run/needs.hpp"
#include "exec/run/rank_report.hpp"
#include "exec/run/request_problems.hpp"
#include "exec/run/resume.hpp"
#include "exec/run/supported.hpp"
#include "exec/run/team.hpp"
#include "planner/lowering/lower.hpp"
#include "sim/program/checker.hpp"
#include "sim/program/turns.hpp"

namespace exec {
namespace {

constexpr std::string_view kNoMemory =
    "out of memory: the run needs more than this process may have (ulimit -v); plan with fewer "
    "ranks, or run a smaller job with --scale-down";

// The first problem ends this rank, and with it all others.
void or_fail(const core::Status& status) {
  if (!status.ok()) throw RunFailure(core::to_text(status.problems()));
}

// The recorded step's parts are those of every step: no other was looked into.
void spread_parts(std::vector<StepTimes>& times, std::size_t recorded) {
  const StepTimes parts = times[recorded];
  for (StepTimes& t : times) {
    const double step = t.step;
    t = parts;
    t.step = step;
  }
}

class Run {
 public:
  Run(const planner::Plan& plan, const planner::Candidate& candidate, const RunOptions& options,
      const program::Program& program, const DataSource& data, CheckpointFolder* checkpoints)
      : plan_(plan),
        candidate_(candidate),
        options_(options),
        program_(program),
        data_(data),
        platform_(platform_of(options)),
        training_(training_of(options.training, plan.job.optimizer, options.steps)),
        checkpoints_(checkpoints),
        resumed_(checkpoints != nullptr ? checkpoints->steps_done() : 0),
        why_no_graphs_(why_no_graphs(program, candidate, options, resumed_)),
        reports_(static_cast<std::size_t>(program.mesh.ranks())),
        logs_(reports_.size()) {}

  RunRecord execute() {
    return options_.processes != nullptr ? execute_in_process(*options_.processes)
                                         : execute_in_threads();
  }

 private:
  RunRecord execute_in_threads() {
    const int ranks = program_.mesh.ranks();
    LocalWorld world(ranks, options_.links ? paced_links(*options_.links, plan_, ranks)
                                           : LocalOptions{});
    RunContext context = context_in(world);
    if (options_.links) context.slowness = paced_kernels(plan_, ranks);
    try {
      world.run([&](int rank) { run_rank(context, rank); });
    } catch (const core::ThreadRefused& refused) {
      throw RunFailure(in_words(refused));
    } catch (const std::bad_alloc&) {
      throw RunFailure(std::string(kNoMemory));
    } catch (const std::exception& e) {
      throw RunFailure(e.what());
    }
    for (std::size_t rank = 0; rank < logs_.size(); ++rank)
      logs_[rank].kernels = platform_.kernels(static_cast<int>(rank));
    write_trace();
    return record(world.emulated_links());
  }

  RunRecord execute_in_process(Processes& processes) {
    try {
      run_rank(context_in(processes), processes.rank());
      const auto own = static_cast<std::size_t>(processes.rank());
      reports_[own].sent = processes.sent();
      logs_[own].kernels = platform_.kernels(processes.rank());
      share(processes, reports_);
      // A device's records are part of the run's record, whether a trace is asked for or not.
      if (options_.trace || options_.platform != nullptr) share(processes, logs_);
      if (processes.rank() == 0) write_trace();
    } catch (const core::ThreadRefused& refused) {
      throw RunFailure(processes.fail(in_words(refused)));
    } catch (const std::bad_alloc&) {
      throw RunFailure(processes.fail(std::string(kNoMemory)));
    } catch (const std::exception& e) {
      throw RunFailure(processes.fail(e.what()));
    }
    return record(processes.emulated_links());
  }

  std::string in_words(const core::ThreadRefused& refused) const {
    return core::to_text(thread_problem(refused, threads_needed(program_, options_.processes)));
  }

  RunContext context_in(World& world) const {
    return {program_,
            plan_.model,
            data_,
            world,
            options_.seed,
            planner::quantization_from_name(plan_.job.quantization)
                .value_or(planner::Quantization::none),
            [this](const program::RankClass& k, int rank) {
              return platform_.backend(program_, k, rank);
            },
            resumed_,
            options_.steps,
            why_no_graphs_.empty(),
            training_};
  }

  void write_trace() const {
    if (options_.trace) or_fail(write_trace_file(program_, logs_, *options_.trace));
  }

  void run_rank(const RunContext& context, int rank) {
    Interpreter interpreter(context, rank);
    if (options_.processes != nullptr) options_.processes->opened();
    RankReport& report = reports_[static_cast<std::size_t>(rank)];
    RankState state;                   // of a device: a copy of all of it
    if (checkpoints_ != nullptr) state.buffers = interpreter.state();
    if (resumed_ > 0) {
      or_fail(checkpoints_->load(rank, state));
      interpreter.put_state();
    }
    report.loss = state.loss;
    const std::int64_t draining = program_.classes.front().schedule.draining_steps();
    const std::int64_t recorded = std::max(resumed_, options_.steps - 1 - draining);
    for (std::int64_t s = resumed_; s < options_.steps; ++s) {
      // A device tells what its time went into where it is asked to, which costs a little: once.
      const bool records =
          s == recorded && (options_.trace || !interpreter.backend().on_host());
      interpreter.record_into(records ? &logs_[static_cast<std::size_t>(rank)] : nullptr);
      const auto begun = std::chrono::steady_clock::now();
      report.times.push_back(interpreter.step(s));
      if (options_.graphs == Graphs::on && !interpreter.kept_steps().refused.empty())
        throw RunFailure(interpreter.kept_steps().refused);
      if (const auto loss = interpreter.loss()) report.loss.push_back(*loss);
      tell(rank, s, interpreter, std::chrono::steady_clock::now() - begun);
      if (checkpoints_ == nullptr) continue;
      if (s + 1 < options_.steps && (s + 1) % options_.checkpoint_every != 0) continue;
      state = {interpreter.state(), report.loss};
      save(interpreter, rank, s + 1, state);
    }
    if (!interpreter.backend().on_host())
      spread_parts(report.times, static_cast<std::size_t>(recorded - resumed_));
    const Ledger& ledger = interpreter.memory().ledger();
    report.terms = ledger.terms();
    report.peaks = ledger.peaks();
    report.live = ledger.peak();
    report.reserved = interpreter.memory().reserved();
    report.traffic = interpreter.statistics();
    report.staleness = interpreter.staleness();
    report.loss_scale = interpreter.loss_scale();
    report.kept = interpreter.kept_steps();
    if (options_.processes != nullptr) {
      report.host = host_name();
      report.device_states = platform_.device_states();
    }
    report.beside = interpreter.backend().beside();
  }

  // Rank 0 begins and ends it; in between every rank writes its own file.
  void save(Interpreter& interpreter, int rank, std::int64_t steps, const RankState& state) {
    const std::unique_ptr<Held> held =
        rank == 0 && options_.hold_signals ? options_.hold_signals() : nullptr;
    if (rank == 0) or_fail(checkpoints_->begin(steps));
    if (rank != 0 && options_.processes != nullptr) checkpoints_->begun(steps);
    interpreter.fetch_state();
    interpreter.barrier();
    or_fail(checkpoints_->write(rank, state));
    interpreter.barrier();
    if (options_.processes != nullptr) tell_files(*options_.processes, rank);
    if (rank == 0) or_fail(checkpoints_->commit());
  }

  // The manifest that rank 0 writes lists every rank's file.
  void tell_files(Processes& processes, int rank) const {
    const std::vector<RankFile> files = share(processes, checkpoints_->file_of(rank));
    for (std::size_t r = 0; r < files.size(); ++r)
      checkpoints_->written(static_cast<int>(r), files[r]);
  }

  // One rank reports progress: its own share of the batch, scaled to the whole. took: its step, and
  // before it the wait for the other ranks' last one.
  void tell(int rank, std::int64_t step, const Interpreter& interpreter,
            std::chrono::duration<double> took) const {
    const RankReport& report = reports_[static_cast<std::size_t>(rank)];
    if (!options_.progress || report.loss.empty()) return;  // servers have no coordinates
    const program::Coordinates c = program_.mesh.coordinates(rank);
    if (c.data != 0 || c.tensor != 0) return;
    const double seconds = took.count();
    options_.progress(
        {.step = step,
         .loss = report.loss.back() * static_cast<double>(program_.mesh.data),
         .learning_rate = training_.rate_at(step),
         .seconds = seconds,
         .tokens_per_second =
             static_cast<double>(plan_.job.global_batch * plan_.job.seq_len) / seconds,
         .share = program_.mesh.data > 1,
         .live = interpreter.memory().ledger().peak()});
  }

  RunRecord record(bool emulated) const {
    RunRecord r;
    r.model = plan_.model;
    r.parameters = plan_.parameters;
    r.profile = plan_.profile;
    r.gpus = plan_.gpus;
    r.gpus_per_node = plan_.gpus_per_node;
    r.nodes = plan_.nodes;
    r.job = plan_.job;
    r.candidate = candidate_;
    r.training = training_;
    r.backend = options_.backend;
    r.communicator = options_.communicator;
    r.emulated_links = emulated;
    r.ranks = program_.mesh.ranks();
    platform_.describe(
        r, options_.processes != nullptr ? RanksAre::processes : RanksAre::threads);
    r.environment["seed"] = std::to_string(options_.seed);
    r.environment["data"] = data_.described();
    if (options_.links) r.environment["links"] = "emulated: " + to_text(*options_.links);
    if (options_.processes != nullptr) note(*options_.processes, r.environment);
    if (options_.platform != nullptr)
      r.environment["graphs"] =
          graphs_text(why_no_graphs_, reports_.front().kept, options_.steps - resumed_);
    r.device_times = device_times(program_, logs_, candidate_.memory.rank);
    if (resumed_ > 0) r.environment["resumed_after_step"] = std::to_string(resumed_);
    const program::RankSchedule& schedule = program_.classes.front().schedule;
    fill_measured(r, reports_, candidate_.memory.rank, options_.steps,
                  program::steps_together(program_), schedule.draining_steps());
    return r;
  }

  void note(const Processes& processes, std::map<std::string, std::string>& environment) const {
    environment.merge(processes.environment());
    std::set<std::string> hosts;
    for (const RankReport& report : reports_) hosts.insert(report.host);
    environment["machines"] = std::to_string(hosts.size());
    for (std::size_t r = 0; r < reports_.size(); ++r)
      if (!reports_[r].device_states.empty())
        environment["gpu_of_rank_" + std::to_string(r)] = reports_[r].device_states;
  }

  const planner::Plan& plan_;
  const planner::Candidate& candidate_;
  const RunOptions& options_;
  const program::Program& program_;
  const DataSource& data_;
  Platform& platform_;
  const Training training_;
  CheckpointFolder* const checkpoints_;  // null: none
  const std::int64_t resumed_;           // steps that lie behind
  const std::string why_no_graphs_;      // empty: a step is kept
  std::vector<RankReport> reports_;
  std::vector<StepLog> logs_;
};

}  // namespace

core::Result<RunRecord> run(const planner::Plan& plan, const RunOptions& options) {
  Processes* const processes = options.processes;
  core::Problems problems = agreed(processes, option_problems(plan, options));
  if (!problems.empty()) return problems;
  const planner::Candidate& candidate = *candidate_of(plan, options.candidate.value_or(0));
  const planner::Strategy strategy =
      planner::resolve(plan.model, plan.job, candidate.strategy);
  problems = planner::strategy_problems(plan.model, plan.job, strategy, plan.gpus);
  for (core::Problem& p : unsupported(plan.job, strategy)) problems.push_back(std::move(p));
  for (core::Problem& p : rank_problems(plan, processes)) problems.push_back(std::move(p));
  problems = agreed(processes, problems);
  if (!problems.empty()) return problems;
  const auto graph =
      models::build_graph(plan.model, planner::graph_options(plan.job, strategy,
                                                             plan.profile.framework));
  if (!graph.ok()) return graph.problems();

  const program::Program program =
      planner::lower(*graph, plan.job, strategy,
                     planner::stage::policy_of(plan.job, plan.profile.framework));
  if (candidate.memory.rank >= program.mesh.ranks())
    return core::Problem{"plan memory rank", "a rank below " + std::to_string(program.mesh.ranks()),
                         std::to_string(candidate.memory.rank), "plan again"};
  problems = agreed(processes, platform_of(options).problems(program, plan.job,
                                                             ranks_here(program, processes)));
  if (!problems.empty()) return problems;
  problems = agreed(processes, turn_problems(program, processes));
  if (!problems.empty()) return problems;
  problems = agreed(processes, step_problems(program, strategy, options));
  if (!problems.empty()) return problems;
  problems = agreed(processes, trace_problems(program, options.trace));
  if (!problems.empty()) return problems;
  const core::Problems unsound = program::check(program);
  PLANNER_CHECK(unsound.empty(), core::to_text(unsound));
  if (processes != nullptr && !processes->calls_wait()) {
    problems = program::check_launches(program);
    if (!problems.empty()) return problems;
  }

  auto data = options.data == "synthetic"
                  ? core::Result<DataSource>(
                        DataSource::synthetic(plan.model, plan.job.seq_len, options.seed))
                  : DataSource::open(options.data, plan.model, plan.job.seq_len, options.seed);
  problems = agreed(processes, data.ok() ? core::Problems{} : data.problems());
  if (!problems.empty()) return problems;
  auto checkpoints = open_checkpoints(options, trained_on(plan, strategy, options, *data),
                                      program.mesh.ranks());
  if (!checkpoints.ok()) return checkpoints.problems();
  CheckpointFolder* const folder = *checkpoints ? &**checkpoints : nullptr;
  problems =
      graph_problems(program, candidate, options, folder != nullptr ? folder->steps_done() : 0);
  if (!problems.empty()) return problems;
  return Run(plan, candidate, options, program, *data, folder).execute();
}

}  // namespace exec
