#include "tests/property/run_program.hpp"

#include <algorithm>
#include <stdexcept>

#include "exec/communicator/local.hpp"
#include "exec/communicator/processes.hpp"
#include "exec/interpret/interpreter.hpp"
#include "models/layer_kinds.hpp"
#include "planner/lowering/lower.hpp"

namespace tests {
namespace {

// A class's flat weights, put together from the ranks that hold its parts.
std::vector<double> flat_weights(const program::RankClass& k, const program::Program& p,
                                 const std::vector<RankResult>& ranks, int rank) {
  const std::vector<double>& own = ranks[static_cast<std::size_t>(rank)].weights;
  if (!k.sharded_weights) return own;
  std::vector<double> flat(static_cast<std::size_t>(k.trained_elements));
  for (const program::Span& s : k.spans) {
    const std::vector<int> group = p.mesh.members(
        s.expert_ways > 1 ? program::Group::expert_shard : program::Group::shard, rank);
    for (std::size_t part = 0; part < group.size(); ++part)
      for (std::int64_t i = 0; i < s.shard_elements; ++i) {
        const std::int64_t at = static_cast<std::int64_t>(part) * s.shard_elements + i;
        if (at >= s.elements) break;
        flat[static_cast<std::size_t>(s.offset + at)] =
            ranks[static_cast<std::size_t>(group[part])]
                .weights[static_cast<std::size_t>(s.shard_offset + i)];
      }
  }
  return flat;
}

void collect_weights(ProgramRun& run) {
  const program::Program& p = run.program;
  for (int rank = 0; rank < p.mesh.workers(); ++rank) {
    const program::Coordinates c = p.mesh.coordinates(rank);
    const auto& k = p.classes[static_cast<std::size_t>(p.class_of(rank))];
    const std::vector<double> flat = flat_weights(k, p, run.ranks, rank);
    for (const program::PlacedParameter& placed : k.parameters) {
      if (!placed.trained) continue;
      std::vector<double> values(flat.begin() + placed.offset,
                                 flat.begin() + placed.offset + placed.parameter.elements);
      auto& by_tensor_rank = run.weights[placed.path];
      by_tensor_rank.resize(static_cast<std::size_t>(p.mesh.tensor));
      // Experts of the ranks that divide them, one behind the other: whole ones on tensor ranks are
      // the first's. The first ranks ascend.
      const bool divided = placed.parameter.expert_ways > 1;
      const bool whole = divided && p.mesh.expert_over_tensor;
      auto& kept = by_tensor_rank[whole ? 0 : static_cast<std::size_t>(c.tensor)];
      const auto index = static_cast<std::size_t>(p.mesh.index(program::Group::expert, rank));
      const std::size_t at = divided ? values.size() * index : 0;
      if (kept.size() <= at) kept.insert(kept.end(), values.begin(), values.end());
      run.replicas_agree =
          run.replicas_agree &&
          std::equal(values.begin(), values.end(), kept.begin() + static_cast<std::ptrdiff_t>(at));
    }
  }
}

}  // namespace

ProgramRun run_program(const models::ModelSpec& spec, const planner::Job& job,
                       planner::Strategy strategy, std::int64_t steps, std::uint64_t seed,
                       const BackendMaker& backends, const hw_profiles::Framework& framework,
                       bool keeps_steps, const std::optional<exec::Training>& training) {
  const auto threads = [&](int ranks, const RankBody& body) {
    exec::LocalOptions options;
    options.stall_limit = core::Seconds(60);
    exec::LocalWorld world(ranks, options);
    world.run([&](int rank) { body(world, rank, backends); });
  };
  return run_program_on(threads, spec, job, strategy, steps, seed, framework, keeps_steps,
                        training);
}

ProgramRun run_program_on(const Ranks& run_ranks, const models::ModelSpec& spec,
                          const planner::Job& job, planner::Strategy strategy, std::int64_t steps,
                          std::uint64_t seed, const hw_profiles::Framework& framework,
                          bool keeps_steps, const std::optional<exec::Training>& training) {
  strategy = planner::resolve(spec, job, strategy);
  const std::int64_t gpus = strategy.workers() + strategy.separate_servers();
  const core::Problems problems = planner::strategy_problems(spec, job, strategy, gpus);
  if (!problems.empty()) throw std::invalid_argument(core::to_text(problems));
  const auto graph = models::build_graph(spec, planner::graph_options(job, strategy, framework));
  if (!graph.ok()) throw std::invalid_argument(core::to_text(graph.problems()));

  ProgramRun run;
  run.program = planner::lower(*graph, job, strategy,
                               planner::stage::policy_of(job, framework));
  const auto ranks = static_cast<std::size_t>(run.program.mesh.ranks());
  const exec::DataSource data = exec::DataSource::synthetic(spec, job.seq_len, seed);
  const auto quantization =
      planner::quantization_from_name(job.quantization).value_or(planner::Quantization::none);
  run.ranks.resize(ranks);
  std::vector<std::vector<double>> losses(ranks);
  run_ranks(static_cast<int>(ranks), [&](exec::World& world, int rank,
                                         const BackendMaker& backends) {
    exec::RunContext context{run.program, spec, data, world, seed, quantization};
    context.steps = steps;
    context.keeps_steps = keeps_steps;
    context.training = training;
    if (backends)
      context.backends = [&](const program::RankClass& k, int of_rank) {
        return backends(run.program, k, of_rank);
      };
    exec::Interpreter interpreter(context, rank);
    if (auto* const processes = dynamic_cast<exec::Processes*>(&world)) processes->opened();
    for (std::int64_t s = 0; s < steps; ++s) {
      interpreter.step(s);
      if (const auto loss = interpreter.loss())
        losses[static_cast<std::size_t>(rank)].push_back(*loss);
    }
    RankResult& r = run.ranks[static_cast<std::size_t>(rank)];
    r.class_index = run.program.class_of(rank);
    const exec::Ledger& ledger = interpreter.memory().ledger();
    r.terms = ledger.terms();
    r.peaks = ledger.peaks();
    r.live = ledger.peak();
    r.reserved = interpreter.memory().reserved();
    r.evaluations = interpreter.forward_evaluations();
    for (auto [key, totals] : interpreter.statistics().entries) {
      totals.calls /= steps;
      totals.payload = totals.payload / steps;
      totals.wire = totals.wire / steps;
      r.traffic[key] = totals;
    }
    r.weights = interpreter.all_weights();
    if (rank + 1 == static_cast<int>(ranks)) run.kept = interpreter.kept_steps();
  });
  run.losses.assign(static_cast<std::size_t>(steps), 0.0);
  for (const auto& of_rank : losses)
    for (std::size_t s = 0; s < of_rank.size(); ++s) run.losses[s] += of_rank[s];
  collect_weights(run);
  return run;
}

models::ModelSpec tiny_gpt(std::int64_t layers) {
  models::ModelSpec spec;
  spec.name = "tiny-gpt";
  spec.family = models::Family::gpt2;
  spec.layers = layers;
  spec.hidden = 24;
  spec.heads = spec.kv_heads = 12;
  spec.ffn_hidden = 48;
  spec.vocab = 61;
  spec.positions = 10;
  spec.default_seq_len = 9;
  spec.default_global_batch = 12;
  return spec;
}

models::ModelSpec tiny_llama(models::Family family) {
  models::ModelSpec spec = tiny_gpt();
  spec.name = "tiny-" + std::string(models::name(family));
  spec.family = family;
  spec.variants = models::variants_of(family);
  spec.activation = models::activation_of(family);
  spec.kv_heads = 6;
  spec.head_dim = 4;  // wider together than hidden
  spec.tied_embeddings = false;
  return spec;
}

models::ModelSpec tiny_mixture(std::int64_t experts, std::int64_t chosen) {
  models::ModelSpec spec = tiny_llama(models::Family::mixtral);
  spec.ffn_hidden = 24;
  spec.default_seq_len = 8;
  spec.variants.experts = experts;
  spec.variants.experts_per_token = chosen;
  return spec;
}

models::ModelSpec tiny_mixed(const std::string& letters) {
  models::ModelSpec spec = tiny_mixture();
  spec.name = "tiny-" + letters;
  models::LayerKind mixture{"mixture", spec.ffn_hidden, spec.variants}, dense = mixture;
  dense.name = "dense";
  dense.ffn_hidden = 36;
  dense.variants.experts = dense.variants.experts_per_token = 0;
  models::LayerKind still = dense;     // attention without places
  still.name = "still";
  still.variants.position_kind = models::Positions::none;
  std::vector<models::LayerKind> layers;
  for (const char letter : letters)
    layers.push_back(letter == 'm' ? mixture : letter == 'd' ? dense : still);
  models::set_layers(spec, layers);
  return spec;
}

models::ModelSpec tiny_of(models::Family family) {
  models::ModelSpec spec = tiny_gpt(3);
  spec.name = "tiny-" + std::string(models::name(family));
  spec.family = family;
  spec.variants = models::variants_of(family);
  spec.activation = models::activation_of(family);
  if (family != models::Family::uce) return spec;
  spec.vocab = 0;
  spec.tied_embeddings = false;
  spec.variants.token_features = 7;
  spec.variants.decoder_hidden = 10;
  return spec;
}

models::ModelSpec small_chain(std::int64_t layers, std::int64_t width) {
  models::ModelSpec spec;
  spec.name = "small-chain";
  spec.family = models::Family::chain;
  spec.widths.assign(static_cast<std::size_t>(layers + 1), width);
  spec.layers = layers;
  spec.activation = models::Activation::tanh;
  spec.loss = models::Loss::squared_error;
  return spec;
}

planner::Job tiny_job(const models::ModelSpec& spec, std::int64_t global_batch,
                      const std::string& recipe) {
  planner::Job job;
  job.seq_len = spec.default_seq_len;
  job.global_batch = global_batch;
  job.recipe = recipe;
  job.mtp_layers = spec.mtp_layers;
  return job;
}

}  // namespace tests
