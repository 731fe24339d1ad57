#include "planner/plan/simulate.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/check.hpp"
#include "core/parse_units.hpp"
#include "planner/evaluate/evaluate.hpp"
#include "planner/evaluate/memory.hpp"
#include "planner/evaluate/swept_time.hpp"
#include "planner/lowering/lower.hpp"
#include "planner/plan/checkpoint_traffic.hpp"
#include "planner/plan/flow_stage.hpp"
#include "planner/plan/state_bytes.hpp"
#include "planner/strategy/job_check.hpp"
#include "sim/cost/action.hpp"
#include "sim/engine/critical_path.hpp"
#include "sim/engine/engine.hpp"
#include "sim/engine/sweep.hpp"
#include "sim/program/checker.hpp"

namespace planner {
namespace {

// What can be played in a minute or two of one core, and recorded in memory.
constexpr double kMostSimulated = 5e8, kMostRecorded = 5e7;
// Where links are shared.
constexpr double kMostShared = 2e7;

// "500 M": a count that may be beyond what an int64 holds.
std::string whole_text(double count) {
  constexpr double kMost = 9e18;
  return core::count_text(static_cast<std::int64_t>(std::min(count, kMost)));
}

void append(core::Problems& all, const core::Problems& more) {
  all.insert(all.end(), more.begin(), more.end());
}

bool varies(const SimulateOptions& o) { return !o.random.empty() || o.sample_steps > 0; }

core::Problems variation_problems(const SimulateOptions& o) {
  if (!varies(o)) return {};
  if (o.flows)
    return {{"--collectives", "timed where ranks or links are slow at random", "flows",
             "leave --collectives, --links, --fabric and --link-down rank=... out"}};
  if (o.random.empty() && o.jitter == 0)
    return {{"--sample-steps", "something that varies", "nothing",
             "write --straggler random=1%,slowdown=1.2 or --jitter 0.05 beside it"}};
  return {};
}

core::Problems option_problems(const Plan& plan, const SimulateOptions& o) {
  core::Problems problems;
  if (candidate_of(plan, o.candidate) == nullptr)
    problems.push_back({"--candidate",
                        fmt::format("0 (the chosen one) or 1 to {}", plan.alternatives.size()),
                        fmt::format("{}", o.candidate),
                        plan.chosen ? "" : "the plan has no feasible candidate"});
  for (const engine::Straggler& s : o.stragglers)
    if (s.rank >= plan.gpus)
      problems.push_back({"--straggler", fmt::format("a rank below {}", plan.gpus),
                          fmt::format("rank={}", s.rank), "name a rank of the plan"});
  if (o.failures) append(problems, failure_problems(plan, *o.failures));
  if (o.flows && !plan.profile.others.empty())
    problems.push_back({"--collectives", "timed on GPUs of several kinds", "flows",
                        "their links differ from node to node: leave --collectives out"});
  append(problems, flow_problems(plan, o));
  append(problems, checkpoint_problems(plan, o));
  append(problems, variation_problems(o));
  return problems;
}

class Player {
 public:
  Player(const Plan& plan, const program::Program& program, const cost::Machine& machine,
         const SimulateOptions& options)
      : plan_(plan), program_(program), machine_(machine), options_(options),
        stage_(program, machine, options),
        scene_(stage_.scene(program, machine, options)) {}

  core::Problems problems() const {
    if (options_.flows && scene_.draining_steps() > 0)
      return {{"--collectives", "timed where a pipeline never flushes", "flows",
               "leave --collectives out, or plan with --pin schedule=1f1b"}};
    const double operations = scene_.operations() * scene_.steps_of(1);
    const double most = options_.flows   ? kMostShared
                        : options_.trace ? kMostRecorded
                                         : kMostSimulated;
    if (operations > most)
      return {{"plan", fmt::format("a step of at most {} operations", whole_text(most)),
               fmt::format("{} of {} ranks", whole_text(operations), scene_.actors().size()),
               options_.flows   ? "leave --collectives flows out"
               : options_.trace ? "leave --trace out"
                                : "leave --unfold and --jitter out"}};
    return too_many_messages(program_, scene_.actors().size(), options_);
  }

  core::Result<Simulation> play(Simulation s) {
    std::vector<engine::Played> record;
    engine::EngineOptions o;
    o.record = &record;
    o.flows = stage_.flows(options_);
    o.machine = &machine_;
    o.threads = options_.threads;
    s.memory = memory_of(program_, plan_.profile);
    const auto worst = static_cast<std::uint32_t>(
        scene_.fold().of[static_cast<std::size_t>(s.memory.rank)]);
    if (!options_.trace && !options_.flows) o.record_actor = worst;
    const engine::Outcome outcome = engine::run(scene_, o);
    s.ranks = program_.mesh.ranks();
    s.ranks_played = static_cast<std::int64_t>(scene_.actors().size());
    s.operations = outcome.operations;
    fill_time(outcome, s);
    fill_streams(outcome, s);
    fill_path(record, s);
    for (const double bytes : outcome.wire_sent) s.wire_sent.push_back(bytes / outcome.steps);
    if (options_.flows) s.loads = stage_.loads(outcome, s.time.step);
    fill_peak(worst, record, s);
    s.communication = communication_of(program_, machine_);
    if (options_.chakra) {
      core::Result<engine::ChakraGroups> groups =
          engine::write_chakra(scene_, *options_.chakra, options_.chakra_sink);
      if (!groups.ok()) return groups.problems();
      s.chakra_groups = std::move(groups).value();
    }
    if (!options_.trace) return s;
    core::Result<program::Trace> trace = engine::write_trace(scene_, record, *options_.trace);
    if (!trace.ok()) return trace.problems();
    s.trace = std::move(trace).value();
    return s;
  }

 private:
  void fill_time(const engine::Outcome& outcome, Simulation& s) const {
    const engine::StepTerms t = engine::critical_terms(outcome);
    s.critical_rank = scene_.actors()[t.actor].rank;
    s.time = time_of(t, machine_);
    s.first_step = seconds(outcome.makespan());
  }

  void fill_streams(const engine::Outcome& outcome, Simulation& s) const {
    for (std::size_t a = 0; a < outcome.actors(); ++a) {
      const engine::StepTerms t = engine::terms_of(outcome, a);
      for (int stream = 0; stream < program::kStreams; ++stream) {
        const std::int64_t busy = t.busy[static_cast<std::size_t>(stream)];
        if (busy > 0)
          s.streams.push_back({scene_.actors()[a].rank, static_cast<program::Stream>(stream),
                               seconds(busy), seconds(t.period - busy)});
      }
    }
  }

  // Flows have been recorded whole; without them a sweep costs less than a record.
  void fill_path(const std::vector<engine::Played>& record, Simulation& s) const {
    const auto swept = [&] {
      const engine::SweepOptions o{.steps = 1, .critical_path = true, .threads = options_.threads};
      return engine::sweep(scene_, o).critical_path;
    };
    const engine::PathTimes path =
        options_.flows ? engine::critical_path(scene_, record, true) : swept();
    for (std::size_t kind = 0; kind < engine::kPathKinds; ++kind)
      if (path[kind] > 0)
        s.critical_path.push_back(
            {std::string(engine::path_kind_name(kind)), seconds(path[kind])});
    std::ranges::stable_sort(s.critical_path, std::ranges::greater{}, &PathPart::seconds);
  }

  void fill_peak(std::uint32_t worst, const std::vector<engine::Played>& record,
                 Simulation& s) const {
    const engine::MemoryPeak peak = engine::memory_peak(scene_, worst, record);
    PLANNER_CHECK(peak.live == s.memory.worst.live, "the replay holds another peak");
    const program::RankClass& k = scene_.timetable(scene_.actors()[worst]).rank_class();
    s.peak = {s.memory.rank, peak.live, seconds(peak.time), "", peak.where.layer,
              peak.where.micro_batch};
    if (peak.where.block != program::kNone) s.peak.block = k.blocks[peak.where.block].name;
  }

  const Plan& plan_;
  const program::Program& program_;
  const cost::Machine& machine_;
  const SimulateOptions& options_;
  const FlowStage stage_;
  engine::Scene scene_;
};

// The step that the options would slow down, as it is without them.
Time healthy_time(const program::Program& program, const cost::Machine& machine,
                  const SimulateOptions& slowed) {
  SimulateOptions healthy;
  healthy.flows = slowed.flows;
  healthy.fabric = slowed.fabric;
  healthy.seed = slowed.seed;
  if (healthy.flows) healthy.flows->weak.clear();
  const FlowStage stage(program, machine, healthy);
  const engine::Scene scene = stage.scene(program, machine, healthy);
  engine::EngineOptions o;
  o.flows = stage.flows(healthy);
  o.machine = &machine;
  o.threads = slowed.threads;
  return time_of(engine::critical_terms(engine::run(scene, o)), machine);
}

// Steps that are played where nobody says how many, and at most: by the operations of one.
constexpr std::int64_t kSampled = 200, kFewestSampled = 20;
constexpr double kWorthSampling = 5e8, kMostSampled = 2e10;

core::Result<Variation> variation_of(const program::Program& program, const cost::Machine& machine,
                                     const SimulateOptions& options) {
  VariationOptions o;
  o.random = options.random;
  o.fixed = options.stragglers;
  o.jitter = options.jitter;
  o.seed = options.seed;
  o.threads = options.threads;
  o.progress = options.progress;
  const double one = operations_of(program, machine, o);
  o.steps = options.sample_steps > 0
                ? options.sample_steps
                : std::clamp(static_cast<std::int64_t>(kWorthSampling / one), kFewestSampled,
                             kSampled);
  const double most = std::max(1.0, kMostSampled / one);
  if (static_cast<double>(o.steps) > most)
    return core::Problem{"--sample-steps", fmt::format("at most {} of this plan's steps",
                                                       whole_text(most)),
                         fmt::format("{}", o.steps), "ask for fewer"};
  return varied_steps(program, machine, o);
}

}  // namespace

core::Result<Simulation> simulate(const Plan& plan, const SimulateOptions& options) {
  core::Problems problems = option_problems(plan, options);
  append(problems, job_problems(plan.job, plan.profile));
  if (!problems.empty()) return problems;
  Simulation s;
  s.candidate = options.candidate;
  s.options = options;
  const Candidate& candidate = *candidate_of(plan, options.candidate);
  s.planned_step = candidate.time.step;
  append(problems, step_length_problems(plan.job, plan.parameters, plan.gpus, plan.profile));
  if (!problems.empty()) return problems;
  const auto lowered = lower_strategy(plan.model, plan.job, plan.profile.framework, plan.gpus,
                                      candidate.strategy);
  if (!lowered.ok()) return lowered.problems();
  s.strategy = lowered->strategy;
  const program::Program& program = lowered->program;
  const core::Problems unsound = program::check(program);
  PLANNER_CHECK(unsound.empty(), core::to_text(unsound));
  const cost::Machine machine =
      machine_for(with_fabric(plan.profile, options), plan.job, plan.model);
  Player player(plan, program, machine, options);
  problems = player.problems();
  if (options.checkpoint) append(problems, saved_problems(state_bytes(program)));
  if (!problems.empty()) return problems;
  core::Result<Simulation> played = player.play(std::move(s));
  if (!played.ok()) return played;
  if (is_slowed(options)) played->healthy = healthy_time(program, machine, options);
  if (varies(options)) {
    core::Result<Variation> variation = variation_of(program, machine, options);
    if (!variation.ok()) return variation.problems();
    played->variation = std::move(variation).value();
  }
  if (options.checkpoint) played->checkpoint = checkpoint_traffic(program, machine, options);
  if (options.failures) {
    const core::Seconds step = played->variation ? played->variation->mean : played->time.step;
    core::Result<Goodput> goodput =
        goodput_of(plan, program, machine, step, *options.failures,
                   played->checkpoint ? &*played->checkpoint : nullptr, options.seed);
    if (!goodput.ok()) return goodput.problems();
    played->goodput = std::move(goodput).value();
  }
  if (options.scale.empty()) return played;
  const auto points = scaling(plan, played->strategy, options.scale);
  if (!points.ok()) return points.problems();
  played->scaling = *points;
  return played;
}

}  // namespace planner
