// What a strategy must satisfy to be lowered. One rule, one message.
#include "planner/strategy/problems.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "models/layer_kinds.hpp"
#include "planner/strategy/batch_norm_problems.hpp"
#include "planner/strategy/context_problems.hpp"
#include "planner/strategy/expert_problems.hpp"
#include "planner/strategy/fp8_problems.hpp"
#include "planner/strategy/graph_cut.hpp"
#include "planner/strategy/memory_saving_problems.hpp"
#include "planner/strategy/schedules.hpp"
#include "planner/strategy/share_problems.hpp"
#include "planner/strategy/split_problems.hpp"

namespace planner {
namespace {

class Rules {
 public:
  Rules(const models::ModelSpec& spec, const Job& job, const Strategy& s, std::int64_t gpus,
        bool keys_alone)
      : spec_(spec),
        job_(job),
        s_(s),
        gpus_(gpus),
        layers_(models::layers_of(spec)),
        failures_(problems_, keys_alone) {}

  core::Problems run() {
    if (!degrees()) return problems_;  // the rest divides by them
    model();
    batch();
    pipeline();
    partition();
    sharding();
    servers();
    checkpoint();
    sequence();
    partial_gradients();
    add_expert_problems(spec_, job_, s_, failures_);
    add_fp8_problems(spec_, job_, s_, failures_);
    // It takes longer than the others, and of keys the first one counts.
    if (!failures_.keys_alone() || problems_.empty()) add_split_problems(spec_, s_, failures_);
    add_share_problems(job_, s_, failures_);
    add_batch_norm_problems(spec_, job_, s_, failures_);
    norm();
    not_lowered();
    return std::move(problems_);
  }

 private:
  static Phrase text(std::int64_t n) { return Phrase(n); }

  bool degrees() {
    constexpr std::int64_t kMost = 1 << 24;
    bool holds = true;
    for (const std::int64_t degree :
         {s_.data, s_.tensor, s_.pipeline, s_.context, s_.expert, s_.split, s_.virtual_stages,
          s_.micro_batch, s_.grad_accum, s_.shard_group})
      holds &= degree >= 1 && degree <= kMost;
    if (!holds) name_degrees(kMost);
    if (!problems_.empty()) return false;
    const double ranks = static_cast<double>(s_.data) * static_cast<double>(s_.tensor) *
                         static_cast<double>(s_.pipeline) * static_cast<double>(s_.context);
    NEED(ranks + static_cast<double>(s_.separate_servers()) == static_cast<double>(gpus_), "data",
         "data x tensor x pipeline x context" +
             Phrase(s_.separate_servers() > 0 ? " + servers" : "") + " = " + text(gpus_) +
             " GPUs",
         text(s_.data) + " x " + text(s_.tensor) + " x " + text(s_.pipeline) + " x " +
             text(s_.context),
         "pin degrees whose product is the number of GPUs");
    return problems_.empty();
  }

  void name_degrees(std::int64_t most) {
    for (auto [key, degree] : {std::pair{"data", s_.data}, {"tensor", s_.tensor},
                               {"pipeline", s_.pipeline}, {"context", s_.context},
                               {"expert", s_.expert}, {"split", s_.split},
                               {"virtual_stages", s_.virtual_stages},
                               {"micro_batch", s_.micro_batch}, {"grad_accum", s_.grad_accum},
                               {"shard_group", s_.shard_group}})
      NEED(degree >= 1 && degree <= most, key, "an integer from 1 to 16777216", text(degree));
  }

  void model() {
    if (s_.tensor == 1) return;
    NEED(models::is_transformer(spec_.family), "tensor",
         "1 for a feed-forward chain or an operator graph", text(s_.tensor),
         "use data, pipeline or sharding");
    if (spec_.heads == 0) return;
    NEED(models::divides_heads(spec_, s_.tensor), "tensor",
         failures_.keys_alone() ? Phrase("")
                                : Phrase(std::string_view(models::heads_expected(spec_))),
         text(s_.tensor));
    models::for_each_kind(spec_, [&](const models::LayerView& kind) {
      NEED(kind.ffn_hidden % s_.tensor == 0, "tensor",
           "a divisor of ffn_hidden " + text(kind.ffn_hidden), text(s_.tensor));
    });
  }

  void batch() {
    if (!s_.shares.empty()) return batch_of_shares();
    const double samples = static_cast<double>(s_.micro_batch) *
                           static_cast<double>(s_.grad_accum) * static_cast<double>(s_.data);
    NEED(samples == static_cast<double>(job_.global_batch), "micro_batch",
         "micro_batch x grad_accum x data = global batch " + text(job_.global_batch),
         text(s_.micro_batch) + " x " + text(s_.grad_accum) + " x " + text(s_.data),
         s_.data > job_.global_batch
             ? "use at most " + text(job_.global_batch) + " data ranks, or a larger --global-batch"
             : "choose a data degree and micro-batch that divide the batch");
  }

  void batch_of_shares() {
    double all = 0;
    for (const std::int64_t m : s_.shares) all += static_cast<double>(m);
    NEED(static_cast<double>(s_.micro_batch) * all == static_cast<double>(job_.global_batch),
         "shares", "micro_batch x the sum of shares = global batch " + text(job_.global_batch),
         text(s_.micro_batch) + " x " + text(static_cast<std::int64_t>(all)));
    NEED(s_.grad_accum == std::ranges::max(s_.shares), "grad_accum", "the greatest of shares",
         text(s_.grad_accum));
  }

  void pipeline() {
    const bool cut = s_.partition == Partition::operators;  // of one layer as well
    NEED(cut || s_.pipeline <= layers_, "pipeline", "at most " + text(layers_) + " stages (layers)",
         text(s_.pipeline));
    const bool single = s_.pipeline == 1;
    NEED(single == (s_.schedule == Schedule::none), "schedule",
         single ? "none with pipeline=1" : "another than none with pipeline > 1",
         Phrase(name(s_.schedule)));
    schedule();
    if (s_.stages.empty()) return;
    const std::int64_t chunks = s_.pipeline * s_.virtual_stages;
    NEED(static_cast<std::int64_t>(s_.stages.size()) == chunks, "stages",
         text(chunks) + " layer counts (pipeline x virtual_stages)",
         text(static_cast<std::int64_t>(s_.stages.size())));
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < s_.stages.size(); ++i) {
      const std::int64_t n = s_.stages[i];
      const bool end = s_.virtual_stages > 1 && (i == 0 || i + 1 == s_.stages.size());
      NEED(n >= (end ? 0 : 1) && n <= layers_, "stages",
           Phrase(end ? "no negative count" : "at least one layer on each stage"), text(n));
      sum += std::clamp<std::int64_t>(n, 0, layers_ + 1);
    }
    NEED(sum == layers_, "stages", "layer counts that sum to " + text(layers_), text(sum));
  }

  // A graph cut: two ranks, in step with each other.
  void partition() {
    if (s_.partition == Partition::layers) {
      NEED(s_.parts.empty(), "parts", "auto without partition=operators", "ranks by operator",
           "pin partition=operators as well as parts");
      return;
    }
    NEED(spec_.family == models::Family::graph, "partition", "layers for another than a graph",
         "operators");
    NEED(s_.pipeline == 2, "pipeline", "2 with partition=operators", text(s_.pipeline),
         "pin pipeline=2");
    NEED(s_.schedule == Schedule::naive, "schedule", "naive with partition=operators",
         Phrase(name(s_.schedule)), "pin schedule=naive");
    NEED(s_.checkpoint == Checkpoint::none, "checkpoint", "none with partition=operators",
         Phrase(name(s_.checkpoint)), "values that crossed would have to cross again");
    NEED(s_.sharding <= Sharding::zero1, "sharding", "none or zero1 with partition=operators",
         Phrase(name(s_.sharding)));
    NEED(s_.stages.empty(), "stages", "auto with partition=operators", "layer counts");
    NEED(job_.mode != Mode::inference, "partition", "layers for inference", "operators");
    if (!problems_.empty()) return;
    NEED(can_cut(spec_), "partition", "layers for a graph of one run of operators", "operators");
    if (s_.parts.empty()) return;
    for (const core::Problem& p : cut_problems(spec_, s_.parts)) problems_.push_back(p);
  }

  void chunks(const ScheduleDef& def) {
    const std::int64_t chunks = s_.virtual_stages, p = s_.pipeline;
    const std::int64_t places = chunk_places(layers_, chunks);
    if (def.chunks == ChunksOfRank::several) {
      NEED(chunks >= 2, "virtual_stages", "at least 2 with schedule=" + Phrase(def.name),
           text(chunks), "pin virtual_stages=2");
    } else {
      const bool v = def.chunks == ChunksOfRank::two_in_v;
      NEED(chunks == (v ? 2 : 1), "virtual_stages", Phrase(v ? "2 with " : "1 with ") +
           Phrase(def.name), text(chunks), "pin schedule=interleaved for more");
    }
    NEED(s_.partition == Partition::operators ||
             (chunks >= 1 && chunks <= layers_ && p * chunks <= places), "virtual_stages",
         "pipeline x virtual_stages of at most " + text(places) +
             Phrase(chunks > 1 ? " (layers, embeddings, head)" : " (layers)"),
         text(p) + " x " + text(chunks));
  }

  void micro_batches(const ScheduleDef& def) {
    const MicroBatches& takes = def.micro_batches;
    const std::int64_t m = s_.grad_accum, p = s_.pipeline;
    if (takes.take(m, p)) return;
    const Phrase own(def.name);
    if (takes.whole_groups)
      failures_.add("grad_accum", "a multiple of pipeline " + text(p) + " with " + own, text(m),
                    "choose a micro-batch that makes it one");
    else if (takes.single)
      failures_.add("grad_accum", Phrase("1 with ") + own, text(m),
                    "it updates by each micro-batch, so that a step has one: a --global-batch of "
                    "micro_batch x data, or pin schedule=pipedream_2bw");
    else
      failures_.add("grad_accum",
                    "at least " + text(takes.fewest(p)) + " micro-batches with " + own, text(m),
                    "use a smaller micro-batch, or 1f1b");
  }

  void schedule() {
    const ScheduleDef& def = schedule_def(s_.schedule);
    chunks(def);
    micro_batches(def);
    NEED(def.infers || job_.mode != Mode::inference, "schedule",
         "naive, gpipe or 1f1b for inference", Phrase(def.name));
    if (def.splits_backward) split_backward();
    if (!def.flushes) without_flush();
  }

  void split_backward() {
    const Phrase own(name(s_.schedule));
    NEED(s_.sharding <= Sharding::zero1, "sharding", "none or zero1 with " + own,
         Phrase(name(s_.sharding)), "gradients of a unit must wait for its weight gradients");
    NEED(s_.checkpoint == Checkpoint::none || drops_within_layers(s_.checkpoint), "checkpoint",
         "none, selective, selective_op, pointwise or modules with " + own,
         Phrase(name(s_.checkpoint)),
         "what whole layers recompute must be kept again for the weight gradients");
    NEED(models::is_transformer(spec_.family), "schedule",
         "naive, gpipe, 1f1b or interleaved for a chain or an operator graph", own,
         "its layers make both gradients in one");
  }

  void without_flush() {
    const Phrase own(name(s_.schedule));
    NEED(s_.sharding <= Sharding::zero1, "sharding", "none or zero1 with " + own,
         Phrase(name(s_.sharding)),
         "each version of the weights is whole: pin sharding=zero1, or schedule=1f1b");
    NEED(s_.offload.empty(), "offload", "nothing with " + own, "offload",
         "the host would hold several versions: pin schedule=1f1b");
  }

  void sharding() {
    const bool smaller = s_.shard_group != s_.data_ranks();
    if (s_.sharding == Sharding::none) {
      NEED(!smaller || s_.shard_group == 1, "shard_group", "no group without sharding",
           text(s_.shard_group), "pin sharding=zero3 as well");
      return;
    }
    NEED(job_.mode != Mode::inference, "sharding", "none for inference",
         Phrase(name(s_.sharding)));
    NEED(s_.data_ranks() % s_.shard_group == 0, "shard_group",
         "a divisor of data x context " + text(s_.data_ranks()), text(s_.shard_group));
    NEED(!smaller || s_.sharding == Sharding::zero3, "shard_group",
         "data x context (" + text(s_.data_ranks()) + ") unless sharding=zero3",
         text(s_.shard_group));
    NEED(s_.grad_sync == GradSync::automatic || s_.grad_sync == GradSync::ring, "grad_sync",
         "ring (reduce-scatter and all-gather) with sharding", Phrase(name(s_.grad_sync)));
  }

  void servers() {
    const bool uses = s_.grad_sync == GradSync::parameter_server;
    if (!uses) {
      NEED(s_.servers == 0, "servers", "0 without grad_sync=parameter_server", text(s_.servers),
           "pin grad_sync=parameter_server");
      NEED(s_.server_mode == ServerMode::sync, "server_mode",
           "sync without grad_sync=parameter_server", Phrase(name(s_.server_mode)),
           "server_mode is of servers: pin grad_sync=parameter_server");
      return;
    }
    const std::int64_t most = s_.servers_colocated ? s_.data : 1 << 16;
    NEED(s_.servers >= 1 && s_.servers <= most, "servers", "1 to " + text(most) + " servers",
         text(s_.servers));
    NEED(s_.sharding == Sharding::none, "sharding", "none with parameter servers",
         Phrase(name(s_.sharding)));
    NEED(s_.pipeline == 1, "pipeline", "1 with parameter servers", text(s_.pipeline));
    NEED(s_.servers_colocated || s_.tensor == 1, "tensor", "1 with servers apart from the workers",
         text(s_.tensor));
    NEED(!job_.reduce_dtype || *job_.reduce_dtype == gradient_type(), "reduce_dtype",
         "the gradient type with parameter servers", "another");
    NEED(job_.mode != Mode::inference, "grad_sync", "auto for inference", "parameter_server");
  }

  core::DType gradient_type() const {
    const auto recipe = resolve_recipe(job_.recipe, job_.precision);
    return recipe ? recipe->gradient : core::DType::f32;
  }

  void checkpoint() {
    NEED(!drops_within_layers(s_.checkpoint) || spec_.heads > 0, "checkpoint",
         "none, every_k, first_k or memory_poor for a model without attention",
         Phrase(name(s_.checkpoint)), "use checkpoint=every_k");
    NEED(s_.checkpoint != Checkpoint::selective_op || !models::has_experts(spec_), "checkpoint",
         "another than selective_op for a mixture of experts", "selective_op");
    const auto of_feed_forward = [](const std::string& target) { return target.size() > 1; };
    NEED(s_.checkpoint != Checkpoint::selective_op || job_.lora_rank == 0 ||
             std::ranges::none_of(job_.lora_targets, of_feed_forward),
         "checkpoint", "another than selective_op with adapters of gate, up or down",
         "selective_op");
    if (counts_layers(s_.checkpoint))
      NEED(s_.checkpoint_every >= 1 && s_.checkpoint_every <= layers_, "checkpoint_every",
           "1 to " + text(layers_) + " layers", text(s_.checkpoint_every));
    else
      NEED(s_.checkpoint_every == 0, "checkpoint_every", "0 without checkpoint=every_k or first_k",
           text(s_.checkpoint_every));
    modules();
    NEED(job_.mode != Mode::inference || s_.checkpoint == Checkpoint::none, "checkpoint",
         "none for inference", Phrase(name(s_.checkpoint)));
  }

  void modules() {
    const bool asked = s_.checkpoint == Checkpoint::modules;
    NEED(asked == (s_.recompute_modules != 0), "recompute_modules",
         asked ? "one or more modules with checkpoint=modules" : "none without checkpoint=modules",
         asked ? "none" : "some",
         asked ? "pin checkpoint='modules(layernorm)', or several with + between them" : "");
    if (!asked) return;
    const models::ModuleSet there = models::modules_of(spec_);
    const auto beyond = static_cast<models::ModuleSet>(s_.recompute_modules & ~there);
    const auto listed = [](models::ModuleSet set) {  // lives as long as the statement
      return fmt::format("{}", fmt::join(models::names_of(set), ", "));
    };
    NEED(beyond == 0, "recompute_modules",
         "modules that a layer of the model has: " + Phrase(listed(there)), Phrase(listed(beyond)));
  }

  void sequence() {
    if (!s_.sequence_parallel) return;
    NEED(s_.tensor > 1, "sequence_parallel", "false with tensor=1", "true", "pin tensor as well");
    NEED(job_.seq_len % s_.tensor == 0, "sequence_parallel",
         "a tensor degree that divides " + text(job_.seq_len) + " tokens", text(s_.tensor));
    NEED(spec_.variants.token_features == 0, "sequence_parallel",
         "false where tokens arrive as features", "true", "pin sequence_parallel=false");
    NEED(!spec_.variants.pooler, "sequence_parallel", "false for a model with a pooler", "true",
         "pin sequence_parallel=false");
  }

  // Workers push gradients before tensor ranks could sum theirs.
  void partial_gradients() {
    const bool partial = s_.tensor > 1 && (s_.sequence_parallel || job_.lora_rank > 0);
    NEED(!partial || s_.grad_sync != GradSync::parameter_server, "grad_sync",
         "auto, ring, tree or naive_all_reduce with sequence_parallel, or with LoRA and tensor > 1",
         "parameter_server");
  }

  // The norm of all gradients must be known before the first of them is used.
  void norm() {
    if (!takes_norm(job_)) return;
    const bool clips = job_.clip > 0;
    NEED(s_.grad_sync != GradSync::parameter_server, "grad_sync",
         clips ? "auto, ring, tree or naive_all_reduce with --clip"
               : "auto, ring, tree or naive_all_reduce with a loss scale",
         "parameter_server",
         clips ? "a server updates its part without the norm of the others: leave --clip out"
               : "a server cannot know that others overflowed: add --loss-scale none, or choose "
                 "--precision bf16");
    NEED(schedule_def(s_.schedule).flushes, "schedule",
         clips ? "a schedule that flushes with --clip"
               : "a schedule that flushes with a loss scale",
         Phrase(name(s_.schedule)),
         "it updates while gradients of the step are under way: pin schedule=1f1b");
  }

  // Values of the vocabulary that this version does not lower.
  void not_lowered() {
    NEED(job_.seq_len % (s_.context * (s_.sequence_parallel ? s_.tensor : 1)) == 0, "context",
         "a degree that divides " + text(job_.seq_len) + " tokens", text(s_.context));
    add_context_problems(spec_, job_, s_, problems_);
    NEED(!s_.tp_overlap || s_.tensor > 1, "tp_overlap", "false with tensor=1", "true");
    add_memory_saving_problems(spec_, job_, s_, problems_);
    NEED(s_.bucket_bytes >= 1, "bucket_bytes", "at least 1 byte", text(s_.bucket_bytes));
    unsigned seen = 0;
    for (const Degree d : s_.mesh_order) seen |= 1U << static_cast<unsigned>(d);
    NEED(seen == 0b1111, "mesh_order", "each of tensor, context, data, pipeline once",
         "one of them twice");
    NEED(layers_ < 16384, "layers", "fewer than 16384 layers", text(layers_));
  }

  const models::ModelSpec& spec_;
  const Job& job_;
  const Strategy& s_;
  const std::int64_t gpus_;
  const std::int64_t layers_;
  core::Problems problems_;
  Failures failures_;
};

}  // namespace

core::Problems strategy_problems(const models::ModelSpec& spec, const Job& job,
                                 const Strategy& strategy, std::int64_t gpus,
                                 bool keys_alone) {
  return Rules(spec, job, strategy, gpus, keys_alone).run();
}

}  // namespace planner
