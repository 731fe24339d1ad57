#include "planner/stage/state.hpp"

namespace planner::stage {

using program::Term;

std::int64_t State::bytes(bool host, std::int64_t versions) const {
  std::int64_t all = 0;
  for (const StateBuffer& b : *this) {
    if (b.host != host) continue;
    const std::int64_t one = core::bytes_of(b.elements, b.type).value();
    all += b.kind == StateKind::weights ? versions * one : one;
  }
  return all;
}

std::string name_of(const StateBuffer& b) {
  constexpr const char* kNames[] = {
      "weights",         "weights.f8",       "weights.f8.other_order",
      "frozen",          "frozen.ends",      "quantised",
      "quantised.scales", "stand_ins",       program::kWideGradients,
      "gradients.copies", "inputs.held",     "gradients",      "loss",
      "norm.squares",     "loss.scale",       "server.weights",   "optimizer.master",
      "optimizer.",       "optimizer.",       "offload.weights",  "offload.gradients"};
  std::string name = kNames[static_cast<std::size_t>(b.kind)];
  if (b.kind != StateKind::moment && b.kind != StateKind::moment_scales) return name;
  name += b.second ? 'v' : 'm';
  name += std::to_string(b.slot);
  return b.kind == StateKind::moment ? name : name + ".scale";
}

State state_of(const StateQuestion& q) {
  const Recipe& r = q.recipe;
  const Strategy& s = q.strategy;
  const StateSizes& of = q.sizes;
  const bool params = s.offloads("params"), optimizer = params || s.offloads("optimizer");
  const bool servers = s.grad_sync == GradSync::parameter_server;
  State state;
  const auto add = [&](StateKind kind, Term term, core::DType type, std::int64_t elements,
                       bool host = false) {
    if (elements > 0) state.add({kind, term, type, elements, host});
  };
  const bool shards = shards_weights(s) || q.apart;
  const std::int64_t weights = shards ? of.shard : of.trained;
  const std::int64_t codes = !stores_f8(q.policy, r) ? 0 : shards ? of.f8_shard : of.f8;
  add(StateKind::weights, Term::weights, r.weight, weights - codes, params);
  add(StateKind::weights_f8, Term::weights, core::DType::f8, codes);
  if (!shards)
    add(StateKind::other_order, Term::weights, core::DType::f8, (q.policy.f8_orders - 1) * codes);
  if (!q.apart) {
    // Where layers' are narrow, what those of the embeddings and the head have beyond them.
    const core::DType frozen = frozen_type(q.policy, r, s);
    add(StateKind::frozen, Term::weights, frozen, of.frozen, params);
    add(StateKind::frozen_ends, Term::weights, core::DType::u8,
        of.frozen_ends * (core::bits(r.compute) - core::bits(frozen)) / 8, params);
    add(StateKind::quantised, Term::weights, core::DType::u8, of.quantised, params);
    if (keeps_whole_scales(q.policy, s))
      add(StateKind::others_constants, Term::weights, core::DType::u8, of.others_constants);
  }
  if (!q.training) return state;
  if (q.policy.stand_ins)
    add(StateKind::stand_ins, Term::gradients, r.compute,
        stand_in_elements(of.largest_layer + of.largest_f8,
                          of.largest_experts + of.largest_f8_experts, of.largest_other, q.last));
  if (!q.apart) {
    if (keeps_wide_gradients(q.policy, s))
      add(StateKind::wide_gradients, Term::gradients, core::DType::f32, of.trained);
    add(StateKind::gradient_copies, Term::gradients, r.weight,
        gradient_copies(q.policy, s) * of.trained);
    add(StateKind::held_inputs, Term::activations, r.activation,
        inputs_held(q.policy, s, q.layers) * q.boundary);
    add(StateKind::gradients, Term::gradients, r.gradient,
        shards_gradients(s) ? of.shard : of.trained, params);
    add(StateKind::loss, Term::logits, core::DType::f64, q.last ? 1 : 0);
    add(StateKind::norm, Term::gradients, core::DType::f64, q.norm ? 1 : 0);
    add(StateKind::loss_scale, Term::optimizer, core::DType::f64,
        q.scales_loss ? LossScale::kElements : 0);
  }
  if (servers && !q.serves) return state;  // the servers keep the optimizer [C5]
  if (servers && !q.apart && s.server_mode == ServerMode::async)
    add(StateKind::server_weights, Term::weights, r.weight, of.shard);
  if (r.has_master) add(StateKind::master, Term::optimizer, r.master, of.shard, optimizer);
  const Optimizer& o = q.optimizer;
  for (int i = 0; i < o.first_moments + o.second_moments && of.shard > 0; ++i) {
    const bool second = i >= o.first_moments;
    const int slot = second ? i - o.first_moments : i;
    const core::DType type = o.quantised ? core::DType::u8
                             : second    ? r.second_moment
                                         : r.first_moment;
    state.add({StateKind::moment, Term::optimizer, type, of.shard, optimizer, slot, second});
    if (o.quantised)
      state.add({StateKind::moment_scales, Term::optimizer, core::DType::f32, of.scales, optimizer,
                 slot, second});
  }
  // What the host's update reads and writes: of an offloaded optimizer the shards of gradients and
  // weights; of offloaded parameters each unit's gradient as it arrives, before it is added.
  if (optimizer && !params) add(StateKind::host_weights, Term::weights, r.weight, of.shard, true);
  if (optimizer) {
    const core::DType type = params ? q.reduce : r.gradient;
    add(StateKind::host_gradients, Term::gradients, type, of.shard, true);
  }
  return state;
}

}  // namespace planner::stage
