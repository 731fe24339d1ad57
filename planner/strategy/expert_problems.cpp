#include "planner/strategy/expert_problems.hpp"

#include "models/layer_kinds.hpp"

namespace planner {
namespace {

class ExpertRules {
 public:
  ExpertRules(const models::ModelSpec& spec, const Job& job, const Strategy& s, Failures& failures)
      : spec_(spec), job_(job), s_(s), failures_(failures) {}

  void run() {
    overlap();
    NEED(s_.expert_tensor == 0 || s_.expert_tensor == 1, "expert_tensor",
         "1, or 0 for as many as tensor ranks", text(s_.expert_tensor));
    NEED(s_.expert_tensor == 0 || s_.expert > 1, "expert_tensor", "0 with expert=1",
         text(s_.expert_tensor), "pin expert to a multiple of tensor");
    if (s_.expert == 1) return;
    const std::int64_t all = models::expert_divisor(spec_);
    NEED(all > 0, "expert", "1 for a model without experts", text(s_.expert));
    if (all == 0) return;
    NEED(all % s_.expert == 0, "expert", "a divisor of " + text(all) + " experts",
         text(s_.expert));
    if (s_.expert_over_tensor()) over_tensor();
    else over_data();
    NEED(s_.grad_sync != GradSync::parameter_server, "expert", "1 with parameter servers",
         text(s_.expert));
    NEED(s_.sharding != Sharding::zero3 || job_.lora_rank == 0, "expert",
         "1 with LoRA and sharding=zero3", text(s_.expert),
         "frozen experts are not gathered apart");
  }

 private:
  static Phrase text(std::int64_t n) { return Phrase(n); }

  // Neighbouring data ranks hold experts / expert each; the other ranks of the data group hold the
  // same ones, add up their gradients and divide their state.
  void over_data() {
    const bool fits_tensor = s_.tensor > 1 && s_.expert % s_.tensor == 0 &&
                             s_.data_ranks() * s_.tensor % s_.expert == 0;
    NEED(s_.data_ranks() % s_.expert == 0, "expert",
         "a divisor of data x context " + text(s_.data_ranks()), text(s_.expert),
         fits_tensor ? "pin expert_tensor=1, which draws expert ranks from tensor ranks, too" : "");
    const std::int64_t copies = copies_of(s_.context);
    NEED(copies % s_.expert == 0, "expert",
         "a divisor of the " + text(copies) + " copies of a sample's tokens", text(s_.expert),
         "every pair of ranks exchanges as many");
    NEED(s_.sharding == Sharding::none || s_.shard_group % s_.expert == 0, "expert",
         "a divisor of shard_group " + text(s_.shard_group), text(s_.expert));
  }

  // All tensor ranks of neighbouring data ranks hold experts / expert each: every tensor rank
  // routes the rows that are its own.
  void over_tensor() {
    NEED(s_.sequence_parallel, "expert_tensor", "0 without sequence_parallel", "1",
         "pin sequence_parallel=true");
    NEED(s_.expert % s_.tensor == 0, "expert",
         "a multiple of tensor " + text(s_.tensor) + " with expert_tensor=1", text(s_.expert));
    if (s_.expert % s_.tensor != 0) return;
    NEED(stride_of(s_, Degree::data) == s_.tensor, "mesh_order",
         "tensor, context, data, pipeline with expert_tensor=1", "another");
    const std::int64_t ways = s_.expert_data_ranks();
    NEED(s_.data_ranks() % ways == 0, "expert",
         "a divisor of tensor x data x context " + text(s_.tensor * s_.data_ranks()),
         text(s_.expert));
    const std::int64_t copies = copies_of(s_.context * s_.tensor);
    NEED(copies % s_.expert == 0, "expert",
         "a divisor of the " + text(copies) + " copies of a tensor rank's tokens of a sample",
         text(s_.expert), "every pair of ranks exchanges as many");
    NEED(s_.sharding == Sharding::none || s_.shard_group % ways == 0, "expert",
         "a divisor of tensor x shard_group " + text(s_.tensor * s_.shard_group),
         text(s_.expert));
    models::for_each_kind(spec_, [&](const models::LayerView& kind) {
      if (kind.variants.experts > 0) whole_windows(kind.variants);
    });
  }

  // Of a sample's tokens that so many ranks have equal parts of.
  std::int64_t copies_of(std::int64_t ranks) const {
    return models::token_copies_divisor(spec_, job_.seq_len / ranks);
  }

  // Of whole windows, tensor ranks route their rows as one rank with all of them does.
  void whole_windows(const models::Variants& v) {
    const std::int64_t window = models::routing_window(v.experts, v.experts_per_token);
    const std::int64_t rows = job_.seq_len / s_.context / s_.tensor;
    NEED(rows % window == 0, "expert_tensor",
         "0 where a tensor rank's " + text(rows) + " tokens of a sample are not whole windows of " +
             text(window) + ", in which routing to experts is balanced",
         "1", "use a longer sequence, or pin expert_tensor=0");
  }

  // Megatron-Core's combined 1F1B pairs the forward pass of a micro-batch with the backward pass of
  // another: its rules (user guide, "Expert-Parallel All-to-All Overlap").
  void overlap() {
    NEED(s_.expert_dispatch == ExpertDispatch::all_to_all || s_.expert > 1, "expert_dispatch",
         "all_to_all with expert=1", "deepep");
    if (!s_.expert_overlap) return;
    NEED(s_.expert > 1, "expert_overlap", "false with expert=1", "true");
    NEED(s_.pipeline == 1 || s_.virtual_stages > 1, "expert_overlap",
         "virtual_stages of 2 or more where there are stages", "true");
    NEED(s_.checkpoint == Checkpoint::none || drops_within_layers(s_.checkpoint),
         "expert_overlap", "false where whole layers are recomputed", "true");
    NEED(!models::has(s_.made_again(), models::Module::moe), "expert_overlap",
         "false where whole mixtures are recomputed", "true",
         "their exchanges would wait for the exchanges of the forward pass made again");
  }

  const models::ModelSpec& spec_;
  const Job& job_;
  const Strategy& s_;
  Failures& failures_;
};

}  // namespace

void add_expert_problems(const models::ModelSpec& spec, const Job& job, const Strategy& strategy,
                         Failures& failures) {
  ExpertRules(spec, job, strategy, failures).run();
}

}  // namespace planner
