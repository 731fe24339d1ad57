#include "planner/evaluate/evaluate.hpp"

#include <cctype>
#include <cmath>
#include <map>
#include <utility>

#include "core/check.hpp"
#include "hw_profiles/mixed.hpp"
#include "planner/evaluate/memory.hpp"
#include "planner/evaluate/played_time.hpp"
#include "planner/evaluate/site_model.hpp"
#include "planner/evaluate/step_time.hpp"
#include "planner/evaluate/swept_time.hpp"
#include "planner/evaluate/product_share.hpp"
#include "planner/lowering/lower.hpp"
#include "sim/cost/action.hpp"
#include "sim/cost/mixed.hpp"
#include "sim/program/traffic.hpp"

namespace planner {
namespace {

using BusyTimes = std::map<program::EntryKey, std::int64_t>;  // picoseconds

void add_routine(const program::Program& program, const program::RankClass& k,
                 const cost::ActionCost& cost, const program::Routine& routine, std::int64_t times,
                 BusyTimes& busy) {
  if (times <= 0) return;
  for (const program::Call& call : routine) {
    const program::Block& block = k.blocks[call.block];
    for (std::uint32_t i = block.first; i < block.last; ++i) {
      const program::Action& action = k.actions[i];
      if (const auto entry = program::entry_of(program, k, action))
        busy[*entry] += times * cost(action, call).value();
    }
  }
}

BusyTimes busy_times(const program::Program& program, const program::RankClass& k,
                     const cost::Machine& machine) {
  const cost::ActionCost cost(program, k, machine);
  BusyTimes busy;
  program::for_each_routine(
      k, [&](const program::Routine& routine, std::int64_t times, std::int64_t) {
        add_routine(program, k, cost, routine, times, busy);
      });
  return busy;
}

}  // namespace

// What a calibration leaves depends on which parts of the site the step spends its time on.
static double step_factor_of(const Question& q, const program::Program& program,
                             Schedule schedule, Regime regime) {
  // The host itself runs what its calibration has measured: native, on no family of GPUs.
  const bool is_gpu = q.profile.gpu.compute_capability.has_value();
  if (is_gpu && q.profile.site.runs.value_or(0) == 0)
    return accuracy().step_factor(
        0, accuracy().of(regime).more +
               accuracy().unscored_variance(q.job.framework, q.profile.gpu.architecture));
  SiteSlopes slopes{};
  if (q.profile.site.host)
    slopes = site_slopes(
        program, site_machines(q.profile, q.job, q.machine.product_share), schedule);
  return accuracy().step_factor(q.profile.site, slopes);
}

// A machine that is no GPU is the host that runs the plan: its buffers equal the prediction.
MemoryError memory_error_of(const Question& q, MemoryRegime regime) {
  const bool is_gpu = q.profile.gpu.compute_capability.has_value();
  return is_gpu ? accuracy().memory_error(q.job.framework, regime)
                : memory_error(accuracy().memory_spread);
}

Uncertainty uncertainty_of(const Question& q, const program::Program& program, Schedule schedule,
                           const Time& time, const Memory& memory) {
  const auto scaled = [](core::Bytes b, double factor) {
    return core::Bytes(static_cast<std::int64_t>(static_cast<double>(b.value()) * factor));
  };
  const core::Bytes device = memory.worst.device;
  const Accuracy& known = accuracy();
  const int gpus_per_node = q.profile.node.gpus_per_node;
  const MemoryRisk risk{.device = static_cast<double>(device.value()),
                        .usable = static_cast<double>(memory.usable.value()),
                        .error = memory_error_of(q, memory_regime_of(program.mesh, gpus_per_node))};
  const double wider = risk.error.usual / known.memory_spread;
  const Regime regime = regime_of(program.mesh, gpus_per_node, time);
  const double factor = step_factor_of(q, program, schedule, regime);
  return {.step_low = time.step / factor,
          .step_high = time.step * factor,
          .device_low = scaled(device, std::pow(known.memory_low, wider)),
          .device_high = scaled(device, std::pow(known.memory_high, wider)),
          .out_of_memory = out_of_memory(risk),
          .calibration_runs = q.profile.site.runs.value_or(0),
          .similar_runs =
              known.has_scored_framework(q.job.framework) ? known.of(regime).runs : 0};
}

stage::Policy policy_of(const Question& q) {
  return stage::policy_of(q.job, q.profile.framework);
}

cost::Machine machine_for(const hw_profiles::Profile& profile, const Job& job,
                          const models::ModelSpec& model) {
  return machine_for(profile, job, product_share(profile, job, model));
}

cost::Machine machine_for(const hw_profiles::Profile& profile, const Job& job,
                          double product_share) {
  return cost::make_machine(profile, {.attention = job.attention,
                                      .bf16 = job.precision == core::DType::bf16,
                                      .fp8 = job.precision == core::DType::f8,
                                      .fp8_rowwise = job.fp8_scaling == "rowwise",
                                      .nvfp4 = job.precision == core::DType::f4,
                                      .fused_norm = job.fused_norm,
                                      .compile = job.compile,
                                      .quantization = job.quantization,
                                      .product_share = product_share});
}

core::Result<Question> make_question(const models::ModelSpec& model, const Job& job,
                                     const hw_profiles::Profile& profile, std::int64_t gpus) {
  models::GraphOptions options = graph_options(job, Strategy{}, profile.framework);
  core::Result<models::ModelGraph> graph = models::build_graph(model, options);
  if (!graph.ok()) return graph.problems();
  Question question{.model = model,
                    .job = job,
                    .profile = profile,
                    .machine = machine_for(profile, job, model),
                    .gpus = gpus,
                    .model_flops = models::step_gemm_flops(*graph),
                    .masked_flops = models::masked_step_flops(*graph),
                    .parameters = models::parameter_count(*graph)};
  return question;
}

// NCCL's words in the letters of its plugins' names.
static std::string in_small_letters(std::string_view text) {
  std::string all(text);
  for (char& c : all) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return all;
}

// Of an entry's busiest rank.
static std::vector<program::LibraryCalls> assumed_calls(const program::Program& program,
                                                        const program::TrafficEntry& t,
                                                        const cost::Machine& machine) {
  const auto collective = program::collective_from_name(t.collective);
  std::vector<program::LibraryCalls> all;
  if (!collective) return all;         // a server's
  for (const program::CallSize& size : t.sizes) {
    const cost::Place place =
        cost::place_of(program.mesh, size.group, t.busiest_rank, machine.gpus_per_node);
    const cost::Machine& links =
        cost::machine_of_group(machine, program.mesh, size.group, t.busiest_rank);
    const auto assumed = cost::nccl_assumed(
        *collective, t.algorithm, place,
        program::payload_bytes(*collective, t.algorithm, place.size, 1, size.elements, size.type),
        links);
    const core::Bytes bytes =
        program::library_bytes(*collective, place.size, size.elements, size.type);
    if (!assumed) continue;
    program::add_calls(all, {.algorithm = std::string(cost::name(assumed->method)),
                             .protocol = in_small_letters(cost::name(assumed->protocol)),
                             .channels = assumed->channels,
                             .count = size.count,
                             .payload = bytes * size.count,
                             .smallest = bytes,
                             .largest = bytes});
  }
  return all;
}

std::vector<CommunicationEntry> communication_of(const program::Program& program,
                                                 const cost::Machine& machine) {
  std::map<int, BusyTimes> by_class;
  std::vector<CommunicationEntry> entries;
  for (const program::TrafficEntry& t : program::traffic(program)) {
    const int k = program.class_of(t.busiest_rank);
    if (!by_class.contains(k))
      by_class[k] =
          busy_times(program, program.classes[static_cast<std::size_t>(k)], machine);
    const BusyTimes& busy = by_class[k];
    const auto at = busy.find({t.what, t.collective, t.algorithm, t.group_size});
    PLANNER_CHECK(at != busy.end(), "what a rank communicates takes it time");
    const core::Picoseconds time(at->second);
    entries.push_back({.what = std::string(program::name(t.what)),
                       .collective = std::string(t.collective),
                       .algorithm = std::string(program::name(t.algorithm)),
                       .group_size = t.group_size,
                       .count = t.count,
                       .payload = t.payload,
                       .wire_per_rank = t.wire,
                       .seconds = core::to_seconds(time),
                       .library = assumed_calls(program, t, machine)});
  }
  return entries;
}

// mfu counts the graph's GEMMs: forward once, backward twice, no recomputation (design,
// section 10); of weights that are not trained backward once.
Throughput throughput_of(const Question& q, core::Seconds step) {
  PLANNER_CHECK(step.value() > 0, "a step without duration");
  const double samples = static_cast<double>(q.job.global_batch);
  const double gpus = static_cast<double>(q.gpus);
  const core::DType type = is_narrow(q.job.precision)
                               ? q.job.precision
                               : resolve_recipe(q.job.recipe, q.job.precision)->compute;
  core::FlopsPerSecond peak{};         // of all GPUs, by one
  for (std::size_t i = 0; i < hw_profiles::kinds(q.profile); ++i) {
    const cost::Machine& m = q.machine.mixed ? q.machine.mixed->kinds[i] : q.machine;
    const double share =
        static_cast<double>(hw_profiles::gpus_of_kind(q.profile, i, q.gpus)) / gpus;
    peak = peak + m.peak[static_cast<std::size_t>(type)] * share;
  }
  const double rate = q.model_flops.value() * samples / step.value() / gpus;
  Throughput t;
  t.samples_per_second = samples / step.value();
  t.tokens_per_second = t.samples_per_second * static_cast<double>(q.job.seq_len);
  t.tokens_per_second_per_gpu = t.tokens_per_second / gpus;
  t.model_tflops_per_gpu = rate / 1e12;
  t.mfu = peak.value() > 0 ? rate / peak.value() : 0;
  return t;
}

Timed timed(const program::Program& program, const cost::Machine& machine, Schedule schedule) {
  const std::optional<SweptTime> swept = swept_time(program, machine);
  if (!swept) return {step_time(program, machine, schedule), "closed_form"};
  if (const auto played = played_time(program, machine, *swept)) return {*played, "simulated"};
  return {swept->time, "sweep"};
}

static Candidate complete(const Question& q, const program::Program& program,
                          const Strategy& strategy, Memory memory, const Timed& t) {
  Candidate c;
  c.strategy = strategy;
  c.memory = std::move(memory);
  c.time = t.time;
  c.evaluator = t.evaluator;
  c.communication = communication_of(program, q.machine);
  c.throughput = throughput_of(q, c.time.step);
  c.uncertainty = uncertainty_of(q, program, strategy.schedule, c.time, c.memory);
  return c;
}

Candidate evaluate(const Question& q, const program::Program& program, const Strategy& strategy,
                   bool want_reserved) {
  return complete(q, program, strategy, memory_of(program, q.profile, want_reserved),
                  timed(program, q.machine, strategy.schedule));
}

std::optional<Candidate> evaluate_fitting(const Question& q, const models::ModelGraph& graph,
                                          const Strategy& strategy, core::Seconds most,
                                          bool estimates) {
  const Strategy resolved = resolve(q.model, q.job, strategy);
  const program::Program program = lower(graph, q.job, resolved, policy_of(q));
  const Timed t = timed(program, q.machine, resolved.schedule);
  if (t.time.step > most) return std::nullopt;
  std::optional<Memory> memory = fitting_memory_of(program, q.profile, estimates);
  if (!memory) return std::nullopt;
  return complete(q, program, resolved, *std::move(memory), t);
}

std::optional<Candidate> settled(const Question& q, const models::ModelGraph& graph, Candidate c,
                                 int threads) {
  if (!c.memory.estimated) return c;
  const program::Program program = lower(graph, q.job, c.strategy, policy_of(q));
  std::optional<Memory> memory = fitting_memory_of(program, q.profile, false, threads);
  if (!memory) return std::nullopt;
  c.memory = *std::move(memory);
  c.uncertainty = uncertainty_of(q, program, c.strategy.schedule, c.time, c.memory);
  return c;
}

Candidate evaluate(const Question& q, const models::ModelGraph& graph, const Strategy& strategy,
                   bool want_reserved) {
  const Strategy resolved = resolve(q.model, q.job, strategy);
  return evaluate(q, lower(graph, q.job, resolved, policy_of(q)), resolved, want_reserved);
}

}  // namespace planner
