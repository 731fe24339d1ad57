#include "planner/search/search.hpp"

#include <algorithm>
#include <array>
#include <chrono>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/parallel.hpp"
#include "core/parse_units.hpp"
#include "hw_profiles/load.hpp"
#include "hw_profiles/mixed.hpp"
#include "models/graph.hpp"
#include "models/layer_kinds.hpp"
#include "models/splits.hpp"
#include "planner/lowering/lower.hpp"
#include "planner/plan/rules_of_thumb.hpp"
#include "planner/search/assumptions.hpp"
#include "planner/search/explorer.hpp"
#include "planner/search/fewer.hpp"
#include "planner/search/framework_limits.hpp"
#include "planner/search/markov_chain.hpp"
#include "planner/search/ranking.hpp"
#include "planner/search/short_of_memory.hpp"
#include "planner/search/split_search.hpp"
#include "planner/search/stale_space.hpp"
#include "planner/search/uneven.hpp"
#include "planner/search/variants.hpp"
#include "planner/strategy/job_check.hpp"

namespace planner {
namespace {

constexpr std::array<std::string_view, 4> kObjectives{"time", "memory", "cost", "energy"};
constexpr std::array<std::string_view, 3> kOtherMachines{"rtx3090", "a100-sxm-80g",
                                                         "h100-sxm-80g"};

// Job and machine with every default filled in and stated.
void complete(const Request& request, Plan& plan) {
  plan.assumptions = request.assumptions;
  const auto assume = [&](std::string text) { plan.assumptions.push_back(std::move(text)); };
  plan.model = request.model;
  plan.job = request.job;
  plan.max_risk = request.max_risk;
  plan.gpus = request.gpus;
  plan.profile = request.profile;
  if (request.gpus_per_node)
    plan.profile.node.gpus_per_node = static_cast<int>(*request.gpus_per_node);
  if (request.internode_bandwidth)
    plan.profile.node.internode_bandwidth = *request.internode_bandwidth;
  plan.gpus_per_node = plan.profile.node.gpus_per_node;
  plan.nodes = (plan.gpus + plan.gpus_per_node - 1) / plan.gpus_per_node;
  const std::string_view whose = is_fine_tuning(plan.job) ? "usual for fine-tuning" :
                                                            "the model's default";
  if (plan.job.seq_len == 0) {
    plan.job.seq_len = default_seq_len(plan.model, plan.job);
    assume(models::is_transformer(plan.model.family)
               ? fmt::format("sequence length {}: {}", plan.job.seq_len, whose)
               : "no sequence: a sample is one input, and counts as one token");
  }
  if (plan.job.global_batch == 0) {
    const std::int64_t usual = default_global_batch(plan.model, plan.job, 1);
    plan.job.global_batch = default_global_batch(plan.model, plan.job, plan.gpus);
    const bool rounded = plan.job.global_batch != usual;
    assume(fmt::format("global batch {} samples: {}{}", plan.job.global_batch, whose,
                       rounded ? fmt::format(", {}, rounded up so that data ranks divide it", usual)
                               : std::string()));
  }
  assume(fmt::format("recipe {}, optimizer {}, attention {}, framework {}", plan.job.recipe,
                     optimizer(plan.job.optimizer).name, plan.job.attention, plan.job.framework));
  if (plan.job.clip > 0)
    assume(fmt::format("gradients are scaled down to a norm of {:g}, as asked for", plan.job.clip));
  if (scales_loss(plan.job))
    assume(fmt::format("loss scale {}: steps whose gradients overflow in fp16 update nothing",
                       loss_scale_text(plan.job.loss_scale)));
  for (const std::string& text : request.constraints.texts())
    assume(fmt::format("{}{}", kAskedFor, text));
  if (request.stale) assume(std::string(kStaleAllowed));
  for (const std::string_view key : request.constraints.beyond_limits())
    assume(fmt::format("framework {} does not run what is pinned of {}: predicted as if it did",
                       plan.job.framework, key));
  if (request.constraints.is_pinned("shares") &&
      !plan.profile.framework.uneven_shares.value_or(false))
    assume(fmt::format("framework {} does not run what is pinned of shares: predicted as if it did",
                       plan.job.framework));
  if (!plan.profile.others.empty())
    assume("GPUs of several kinds: each rank has its own kind's kernels and memory, and a group "
           "with ranks of several kinds the slower of their links");
  assume(uncertainty_assumption(plan.profile, plan.job.framework));
  models::for_each_kind(plan.model, [&](const models::LayerView& kind) {
    const models::Variants& v = kind.variants;
    if (v.experts == 0) return;
    const double load = plan.job.expert_imbalance;
    assume(load == 1
               ? fmt::format("routing is balanced: each of {} experts gets {}/{} of a sample's "
                             "tokens, none is dropped",
                             v.experts, v.experts_per_token, v.experts)
               : fmt::format("of {} experts the busiest rank's get {:g} times an equal share of "
                             "the rows, as asked for, and the others wait for it; none is dropped",
                             v.experts, load));
  });
  if (plan.model.dropout > 0 && plan.job.mode != Mode::inference)
    assume(fmt::format("dropout of {} is left out: its elementwise kernels are not counted",
                       plan.model.dropout));
  if (plan.model.mtp_layers > 0 && plan.job.mode != Mode::inference)
    assume(what_mtp_adds(plan.model, plan.job));
  for (const std::string& note : plan.model.read_notes) assume(note);
  if (!plan.model.not_read.empty())
    assume(fmt::format("not read in the model's configuration: {}",
                       fmt::join(plan.model.not_read, ", ")));
  if (plan.model.variants.pooler)
    assume("the pooled token is computed, the loss of its sentence task is not");
  if (plan.job.mode == Mode::inference)
    assume("inference is one forward pass over the batch, without generation");
}

std::vector<Question> questions_for(const Request& request, const Plan& plan,
                                    const Question& first) {
  std::vector<Question> questions{first};
  if (request.gpu_given) return questions;
  for (std::string_view name : kOtherMachines) {
    if (name == plan.profile.gpu.id) continue;
    const auto profile = hw_profiles::find_profile(std::string(name));
    PLANNER_CHECK(profile.ok(), "a shipped profile is missing");
    Question question = first;
    question.profile = *profile;
    question.profile.framework = plan.profile.framework;
    question.machine = machine_for(question.profile, plan.job, plan.model);
    questions.push_back(std::move(question));
  }
  return questions;
}

void fill_other_machines(Explorer& explorer, const std::vector<Question>& questions,
                         const Request& request, Plan& plan) {
  if (questions.size() == 1) return;
  for (std::string_view name : kOtherMachines) {
    for (std::size_t i = 0; i < questions.size(); ++i) {
      if (questions[i].profile.gpu.id != name) continue;
      plan.other_machines.push_back(
          other_machine(questions[i].profile,
                        i == 0 ? plan.chosen : best_on(explorer, i, request)));
    }
  }
}

// Constraints that leave no strategy at all are named, since nothing was there to be rejected.
void explain_empty_space(const Request& request, Plan& plan) {
  if (plan.chosen || !plan.rejected.empty()) return;
  std::string texts;
  for (const std::string& text : request.constraints.texts())
    texts += fmt::format("{}{}", texts.empty() ? "" : ", ", text);
  const auto& runs = plan.profile.framework.runs;
  if (!runs.empty())
    texts += fmt::format("{}what framework {} runs", texts.empty() ? "" : " and ",
                         plan.job.framework);
  for (const hw_profiles::Framework::Runs& r : runs)
    texts += fmt::format(", {}={}", r.key, r.values);
  Rejection rejection;
  rejection.limit = "pins";
  rejection.needed = rejection.available = plan.gpus;
  rejection.fix =
      fmt::format("no strategy on {} GPUs satisfies {}: leave one out", plan.gpus, texts);
  plan.rejected.push_back(std::move(rejection));
  plan.rejected_per_limit["pins"] = 1;
}

// The request completed in `plan`, and the question it asks of the machine; or what is wrong.
core::Result<Question> ask(const Request& request, Plan& plan) {
  complete(request, plan);
  core::Problems problems = job_problems(plan.job, plan.profile);
  for (core::Problem& p : chain_problems(request)) problems.push_back(std::move(p));
  if (!problems.empty()) return problems;
  if (plan.model.family == models::Family::graph) {  // names and kinds, whatever the ranks
    const auto splits = models::annotated(plan.model.graph, models::analyse(plan.model.graph),
                                          request.constraints.pinned_items("splits"), 1);
    if (!splits.ok()) return splits.problems();
  }
  core::Result<Question> question = make_question(plan.model, plan.job, plan.profile, plan.gpus);
  if (!question.ok()) return question;
  plan.parameters = question->parameters;
  state_masked_share(*question, plan);
  const core::Problems length =
      step_length_problems(plan.job, plan.parameters, plan.gpus, plan.profile);
  if (!length.empty()) return length;
  return question;
}

bool can_divide_samples(const Plan& plan) {
  return models::is_transformer(plan.model.family) && plan.job.mode != Mode::inference;
}

// Of the model's modules, those that cost little to make again: DeepSeek's ([deepseekv3] 3.2.3),
// without the activation of dense feed-forwards where a framework has no word for it.
models::ModuleSet cheap_modules(const models::ModelSpec& model, const hw_profiles::Framework& f) {
  using enum models::Module;
  models::ModuleSet cheap = 0;
  for (const models::Module m : {layernorm, mlp_act, moe_act, mla_up_proj})
    if (m != mlp_act || f.recomputes_pointwise) cheap = models::both(cheap, models::set_of(m));
  return static_cast<models::ModuleSet>(cheap & models::modules_of(model));
}

// The divisions of a graph's operators over neighbouring data ranks that a search tries, for each
// number of ranks. Pinned annotations without *=auto are one division, which complete_splits
// completes. Otherwise split_choices finds divisions that keep what is pinned.
std::vector<SplitChoice> splits_to_try(const Question& question, const Constraints& constraints) {
  constexpr std::int64_t kMostRanks = 64;
  std::vector<SplitChoice> all;
  if (question.model.family != models::Family::graph || question.job.mode == Mode::inference ||
      constraints.is_pinned("partition"))
    return all;
  const std::vector<std::string> given = constraints.pinned_items("splits");
  const models::GraphAnalysis analysis = models::analyse(question.model.graph);
  for (std::int64_t ranks = 2; ranks <= std::min(question.gpus, kMostRanks); ++ranks) {
    if (question.gpus % ranks != 0 || !constraints.admits("split", ranks)) continue;
    if (!models::annotated(question.model.graph, analysis, given, ranks).ok()) continue;
    if (!given.empty() && std::ranges::find(given, models::kSearchedSplits) == given.end()) {
      all.push_back({ranks, given});
      continue;
    }
    for (SplitChoice& choice : split_choices(question, question.gpus, ranks, given))
      all.push_back(std::move(choice));
  }
  return all;
}

SpaceOptions options_of(const Question& question, const Request& request, const Plan& plan) {
  SpaceOptions options{.gpus = plan.gpus, .gpus_per_node = plan.gpus_per_node,
                       .layers = layers_of(plan.model),
                       .experts = models::expert_divisor(plan.model)};
  if (can_divide_samples(plan)) options.least_tokens = kTokensOfRank;
  // This tool's executor asks a library for attention over whole rows and some heads, not over keys
  // of other ranks.
  if (question.machine.attention_workspace.value() > 0)
    options.exchanged_heads = plan.model.kv_heads;
  const hw_profiles::Framework& framework = question.profile.framework;
  options.pointwise = framework.recomputes_pointwise;
  options.modules = cheap_modules(plan.model, framework);
  options.tries_modules = framework.recomputes_modules &&
                          (models::has(options.modules, models::Module::mla_up_proj) ||
                           (models::has(options.modules, models::Module::moe_act) &&
                            !framework.recomputes_pointwise));
  options.splits = splits_to_try(question, request.constraints);
  options.overlap = overlaps(plan.job, framework, Sharding::none);
  options.overlap_divided = overlaps(plan.job, framework, Sharding::zero1);
  return options;
}

void explore(Explorer& explorer, const Request& request, const Plan& plan,
             const SpaceOptions& options) {
  const Constraints& constraints = request.constraints;
  explorer.explore(structures(plan.job, options, constraints), constraints);
  if (std::vector<Structure> uneven =
          uneven_structures(explorer.structures(), explorer.question(), constraints);
      !uneven.empty())
    explorer.explore_also(std::move(uneven));
  if (request.stale) explorer.explore_also(stale_structures(plan.job, options, constraints));
}

}  // namespace

std::string_view name(Objective objective) {
  return kObjectives[static_cast<std::size_t>(objective)];
}

std::optional<Objective> objective_from_name(std::string_view text) {
  for (std::size_t i = 0; i < kObjectives.size(); ++i)
    if (kObjectives[i] == text) return static_cast<Objective>(i);
  return std::nullopt;
}

bool is_fine_tuning(const Job& job) {
  return job.mode == Mode::finetune || (job.mode == Mode::train && job.lora_rank > 0);
}

std::int64_t default_seq_len(const models::ModelSpec& model, const Job& job) {
  constexpr std::int64_t kTuned = 2048;
  return is_fine_tuning(job) ? std::min(kTuned, model.default_seq_len) : model.default_seq_len;
}

std::int64_t default_global_batch(const models::ModelSpec& model, const Job& job,
                                  std::int64_t gpus) {
  constexpr std::int64_t kTuned = 64;
  const std::int64_t usual = is_fine_tuning(job) ? kTuned : model.default_global_batch;
  std::int64_t sharers = std::min(usual, gpus);
  while (gpus % sharers != 0) --sharers;
  return program::padded(usual, sharers);
}

core::Result<Plan> make_plan(const Request& asked) {
  const auto start = std::chrono::steady_clock::now();
  const core::Result<Request> limited = within_framework(asked);
  if (!limited.ok()) return limited.problems();
  const Request& request = *limited;
  Plan plan;
  const core::Result<Question> question = ask(request, plan);
  if (!question.ok()) return question.problems();
  const std::vector<Question> questions = questions_for(request, plan, *question);
  const int threads = request.threads > 0 ? request.threads : core::usable_threads();
  Explorer explorer(questions, request.max_risk, std::max(1, threads - request.busy_threads));
  explorer.tell(request.progress);
  const SpaceOptions options = options_of(*question, request, plan);
  explore(explorer, request, plan, options);
  ShortOfMemory memory(explorer, request, options);
  memory.explore();
  if (request.progress)
    request.progress(fmt::format("evaluated {} strategies, now lowering the best",
                                 explorer.counts().evaluated));
  choose(explorer, request, memory, plan);
  if (request.chain && request.progress) request.progress("walking over divisions of operators");
  try_chain(*question, request, plan);
  if (!plan.chosen && !plan.alternatives.empty())
    return core::Problem{"--candidate", fmt::format("1 to {}", plan.alternatives.size()),
                         fmt::format("{}", request.candidate), "name one of the ranking"};
  if (plan.chosen && !request.brief) plan.earned = earned_by(explorer, request, plan);
  state_hosts(request, plan);
  state_missing_kernels(plan);
  state_known_runs(plan);
  if (request.tokens && plan.chosen) {
    const Time& t = plan.chosen->time;
    plan.training =
        cost::training(hw_profiles::mean_gpu(plan.profile, plan.gpus), plan.gpus, *request.tokens,
                       plan.job.global_batch * plan.job.seq_len, t.step, t.compute + t.optimizer);
  }
  state_fewer_gpus(request, plan);
  if (!request.brief || !plan.chosen) explain_rejections(explorer, plan);
  explain_empty_space(request, plan);
  fill_other_machines(explorer, questions, request, plan);
  const std::int64_t samples = plan.chosen ? plan.chosen->strategy.micro_batch : 1;
  plan.rules_of_thumb =
      rules_of_thumb(plan.model, plan.parameters, plan.job.seq_len, samples);
  std::optional<Chain> chain = std::move(plan.search.chain);
  plan.search = explorer.counts();
  plan.search.chain = std::move(chain);
  plan.search.seconds = core::Seconds(
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  return plan;
}

core::Result<SearchCounts> explore_space(const Request& asked) {
  const core::Result<Request> limited = within_framework(asked);
  if (!limited.ok()) return limited.problems();
  const Request& request = *limited;
  Plan plan;
  const core::Result<Question> question = ask(request, plan);
  if (!question.ok()) return question.problems();
  const auto start = std::chrono::steady_clock::now();
  Explorer explorer({*question}, request.max_risk);
  const SpaceOptions options = options_of(*question, request, plan);
  explore(explorer, request, plan, options);
  ShortOfMemory(explorer, request, options).explore();
  SearchCounts counts = explorer.counts();
  counts.seconds = core::Seconds(
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  return counts;
}

}  // namespace planner
