#include "exec/run/run.hpp"

#include <algorithm>

#include "core/parse_units.hpp"
#include "exec/host/work.hpp"
#include "exec/interpret/interpreter.hpp"
#include "exec/run/environment.hpp"
#include "exec/run/supported.hpp"
#include "planner/lower.hpp"
#include "sim/program/checker.hpp"

namespace exec {
namespace {

using program::TermBytes;

const planner::Candidate* candidate_of(const planner::Plan& plan, const RunOptions& options) {
  const int n = options.candidate.value_or(0);
  if (n == 0) return plan.chosen ? &*plan.chosen : nullptr;
  const auto count = static_cast<int>(plan.alternatives.size());
  return n > 0 && n <= count ? &plan.alternatives[static_cast<std::size_t>(n - 1)] : nullptr;
}

core::Problems option_problems(const planner::Plan& plan, const RunOptions& o) {
  core::Problems problems;
  if (o.backend != "host")
    problems.push_back({"--backend", "host", "\"" + o.backend + "\"", "use --backend host"});
  if (o.communicator != "local")
    problems.push_back({"--communicator", "local", "\"" + o.communicator + "\"",
                        "use --communicator local"});
  if (o.steps < 1)
    problems.push_back({"--steps", "at least 1", std::to_string(o.steps), ""});
  if (candidate_of(plan, o) == nullptr)
    problems.push_back({"--candidate", "0 (the chosen one) or 1 to " +
                                           std::to_string(plan.alternatives.size()),
                        std::to_string(o.candidate.value_or(0)),
                        plan.chosen ? "" : "the plan has no feasible candidate"});
  const core::DType half = plan.job.precision;
  if (half != core::DType::bf16 && half != core::DType::f16)
    problems.push_back({"precision", "bf16 or f16 on the host", std::string(core::name(half)), ""});
  if (plan.job.mode == planner::Mode::inference)
    problems.push_back({"mode", "train or finetune", "inference",
                        "plan a training job: the host backend trains"});
  return problems;
}

// All ranks are in this machine's memory at once.
core::Problems memory_problems(const program::Program& p) {
  core::Bytes need{0};
  for (std::size_t c = 0; c < p.classes.size(); ++c)
    need += program::replay(p.classes[c]).reserved *
            static_cast<std::int64_t>(p.ranks_of(static_cast<int>(c)).size());
  const core::Bytes have = available_memory();
  if (need <= have) return {};
  return {{"--backend host", "at most " + core::to_text(have) + " of free memory for all ranks",
           core::to_text(need), "plan a smaller model, fewer --gpus or a smaller --global-batch"}};
}

// Operators that the host has no kernel for, each kind once.
core::Problems kernel_problems(const program::Program& p) {
  core::Problems problems;
  for (const program::RankClass& k : p.classes)
    for (const models::Operator& op : k.operators) {
      const bool named = std::ranges::any_of(
          problems, [&](const core::Problem& known) { return known.found == op.name; });
      if (named || host::computes(op)) continue;
      problems.push_back({"--backend host", "operators that the host backend computes", op.name,
                          "execute a model of family gpt2, llama, qwen2, qwen3 or chain"});
    }
  return problems;
}

constexpr int kMostRanks = 256;        // threads of one process

// What each rank's thread leaves behind.
struct RankReport {
  TermBytes terms{}, peaks{};
  core::Bytes live{}, reserved{};
  CommunicatorStatistics traffic;
  std::vector<StepTimes> times;
  std::vector<double> loss;            // empty: not computed here
};

class Run {
 public:
  Run(const planner::Plan& plan, const planner::Candidate& candidate, const RunOptions& options,
      const program::Program& program, DataSource data)
      : plan_(plan), candidate_(candidate), options_(options), program_(program),
        data_(std::move(data)), reports_(static_cast<std::size_t>(program.mesh.ranks())) {}

  RunRecord execute() {
    LocalWorld world(program_.mesh.ranks());
    const RunContext context{program_, plan_.model, data_, world, options_.seed};
    try {
      world.run([&](int rank) { run_rank(context, rank); });
    } catch (const std::exception& e) {
      throw RunFailure(e.what());
    }
    return record(world.emulated_links());
  }

 private:
  void run_rank(const RunContext& context, int rank) {
    Interpreter interpreter(context, rank);
    RankReport& report = reports_[static_cast<std::size_t>(rank)];
    for (std::int64_t s = 0; s < options_.steps; ++s) {
      report.times.push_back(interpreter.step(s));
      if (const auto loss = interpreter.loss()) report.loss.push_back(*loss);
      if (!report.loss.empty() && options_.progress && first_loss(rank))
        options_.progress(s, report.loss.back() * loss_share());
    }
    const Ledger& ledger = interpreter.memory().ledger();
    report.terms = ledger.terms();
    report.peaks = ledger.peaks();
    report.live = ledger.peak();
    report.reserved = interpreter.memory().reserved();
    report.traffic = interpreter.statistics();
  }

  // One rank reports progress: its own share of the batch, scaled to the whole.
  bool first_loss(int rank) const {
    const program::Coordinates c = program_.mesh.coordinates(rank);
    return c.data == 0 && c.tensor == 0;
  }
  double loss_share() const { return static_cast<double>(program_.mesh.data); }

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
    r.backend = options_.backend;
    r.communicator = options_.communicator;
    r.device = device_text(program_.mesh.ranks());
    r.emulated_links = emulated;
    r.ranks = program_.mesh.ranks();
    r.steps = options_.steps;
    r.environment = environment();
    r.environment["seed"] = std::to_string(options_.seed);
    r.environment["data"] = options_.data == "synthetic" ? "synthetic" : "file";
    r.loss.assign(static_cast<std::size_t>(options_.steps), 0.0);
    for (const RankReport& report : reports_)  // ascending ranks: a stated order
      for (std::size_t s = 0; s < report.loss.size(); ++s) r.loss[s] += report.loss[s];
    fill_memory(r);
    fill_communication(r);
    fill_time(r);
    return r;
  }

  const RankReport& named() const {
    return reports_[static_cast<std::size_t>(candidate_.memory.rank)];
  }

  void fill_memory(RunRecord& r) const {
    r.memory.rank = candidate_.memory.rank;
    for (std::size_t t = 0; t < program::kTerms; ++t) {
      r.memory.terms[t] = named().terms[t];
      r.memory.peaks[t] = named().peaks[t];
    }
    r.memory.live = named().live;
    r.memory.reserved = named().reserved;
  }

  void fill_communication(RunRecord& r) const {
    std::map<TrafficKey, TrafficTotals> busiest;
    for (const RankReport& report : reports_)
      for (const auto& [key, totals] : report.traffic.entries) {
        const auto [at, fresh] = busiest.try_emplace(key, totals);
        if (!fresh && totals.wire > at->second.wire) at->second = totals;
      }
    for (const auto& [key, t] : busiest) {
      if (t.wire == core::Bytes(0)) continue;
      const std::int64_t steps = options_.steps;
      r.communication.push_back({std::string(program::name(key.what)), collective_name(key),
                                 std::string(program::name(key.algorithm)), key.group_size,
                                 t.calls / steps, t.payload / steps, t.wire / steps,
                                 t.busy / static_cast<double>(steps)});
    }
  }

  // Times of the rank that the plan names, of the median step; a first step that warms up is left
  // out where others follow.
  void fill_time(RunRecord& r) const {
    std::vector<StepTimes> steps = named().times;
    if (steps.size() > 2) steps.erase(steps.begin());
    std::ranges::sort(steps, {}, &StepTimes::step);
    const auto at = [&](double q) {
      return steps[static_cast<std::size_t>(q * static_cast<double>(steps.size() - 1) + 0.5)];
    };
    const StepTimes median = at(0.5);
    r.time.step_median = core::Seconds(median.step);
    r.time.step_p10 = core::Seconds(at(0.1).step);
    r.time.step_p90 = core::Seconds(at(0.9).step);
    r.time.compute = core::Seconds(median.compute);
    r.time.exposed_communication = core::Seconds(median.exposed_communication);
    r.time.optimizer = core::Seconds(median.optimizer);
    r.time.bubble = core::Seconds(std::max(
        0.0, median.step - median.compute - median.exposed_communication - median.optimizer));
    core::Seconds busy{0};
    for (const auto& [key, t] : named().traffic.entries) busy += t.busy;
    r.time.communication = busy / static_cast<double>(options_.steps);
  }

  const planner::Plan& plan_;
  const planner::Candidate& candidate_;
  const RunOptions& options_;
  const program::Program& program_;
  const DataSource data_;
  std::vector<RankReport> reports_;
};

}  // namespace

core::Result<RunRecord> run(const planner::Plan& plan, const RunOptions& options) {
  core::Problems problems = option_problems(plan, options);
  if (!problems.empty()) return problems;
  const planner::Candidate& candidate = *candidate_of(plan, options);
  const planner::Strategy strategy =
      planner::resolve(plan.model, plan.job, candidate.strategy);
  problems = planner::strategy_problems(plan.model, plan.job, strategy, plan.gpus);
  for (core::Problem& p : unsupported(plan.job, strategy)) problems.push_back(std::move(p));
  if (plan.gpus > kMostRanks)
    problems.push_back({"plan gpus", "at most " + std::to_string(kMostRanks) + " ranks on one host",
                        std::to_string(plan.gpus), "plan fewer --gpus"});
  if (!problems.empty()) return problems;
  const auto graph =
      models::build_graph(plan.model, planner::graph_options(plan.job, strategy));
  if (!graph.ok()) return graph.problems();

  const program::Program program = planner::lower(*graph, plan.job, strategy);
  if (candidate.memory.rank >= program.mesh.ranks())
    return core::Problem{"plan memory rank", "a rank below " + std::to_string(program.mesh.ranks()),
                         std::to_string(candidate.memory.rank), "plan again"};
  problems = kernel_problems(program);
  if (!problems.empty()) return problems;
  problems = memory_problems(program);
  if (!problems.empty()) return problems;
  const core::Problems unsound = program::check(program);
  PLANNER_CHECK(unsound.empty(), core::to_text(unsound));

  auto data = options.data == "synthetic"
                  ? core::Result<DataSource>(
                        DataSource::synthetic(plan.model, plan.job.seq_len, options.seed))
                  : DataSource::open(options.data, plan.model, plan.job.seq_len, options.seed);
  if (!data.ok()) return data.problems();
  return Run(plan, candidate, options, program, std::move(*data)).execute();
}

}  // namespace exec
