// Gradients over ranks and the optimizer. Calls carry the span as their layer.
//   none     all-reduce of each bucket's gradients [ring]; every rank updates all weights
//   zero1    reduce-scatter of each bucket, update of the own chunk, all-gather of weights [zero]
//   zero2    as zero1, by unit and micro-batch: gradients exist as shards
//   zero3    as zero2 without the last gather: weights exist as shards, too (units.cpp)
//   servers  push of gradients; servers add, update and send weights back [C2, C3, C5]; or,
//            asynchronous, update by each push and answer that worker alone [C9]: on a worker's
//            rank on a stream beside its step, in a copy of the server's part of the weights
#include <algorithm>

#include "core/check.hpp"
#include "planner/lowering/lower.hpp"
#include "planner/lowering/stage_lowering.hpp"
#include "planner/stage/norm.hpp"
#include "planner/strategy/schedules.hpp"

namespace planner::lowering {

using program::Collective;
using program::EventRef;
using program::Range;
using program::Traffic;
using program::Transfer;
using program::Wait;

void StageLowering::declare_synchronisation() {
  if (!stage_.training() || layout_.spans.empty()) return;
  const int count = static_cast<int>(layout_.spans.size());
  if (communicates()) {
    ready_ = builder_.event("ready", count);
    reduced_ = builder_.event("reduced", count);
  }
  if (stage::copies_moments(stage_.policy, *stage_.strategy, stage_.optimizer)) {
    program::Buffer copies;
    copies.name = "update.copies";
    copies.term = program::Term::optimizer;
    copies.type = stage_.recipe.second_moment;
    copies.extent = count;
    for (const program::Span& s : layout_.spans) copies.elements.push_back(s.shard_elements);
    update_copies_ = builder_.buffer(std::move(copies));
  }
  updated_ = builder_.event("updated", count);
  regathered_ = builder_.event("regathered", count);
  program::Buffer b;
  b.term = program::Term::communication;
  b.extent = count;
  if (stage_.servers() && stage_.serves) {
    for (const program::Span& s : layout_.spans) b.elements.push_back(s.shard_elements);
    b.name = "server.sum";
    b.type = stage_.recipe.gradient;
    if (serves_beside()) {  // in turns, between steps too: one at a time, there all along
      b.elements = {std::ranges::max(b.elements)};
      b.extent = 1;
      b.persistent = true;
    }
    sum_ = builder_.buffer(b);
  } else if (communicates() && stage_.reduce_type() != stage_.recipe.gradient) {
    for (const program::Span& s : layout_.spans) b.elements.push_back(s.elements);
    b.name = "staging";
    b.type = stage_.reduce_type();
    staging_ = builder_.buffer(b);
  }
  if (stage_.servers()) pulled_ = builder_.event("pulled", count);
}

View StageLowering::weight_range(bool f8) const {
  if (serves_beside())
    return ranged(constant_view(class_.server_weights_buffer), Range::span_shard);
  const bool codes = f8 && state_.f8 != program::kNone;
  const View w = constant_view(codes ? state_.f8 : state_.weights);
  if (stage_.apart || stage_.sharded_weights()) return ranged(w, Range::span_shard);
  return ranged(w, stage_.parts() > 1 ? Range::span_chunk : Range::span);
}

View StageLowering::gradient_range() const {
  const View g = constant_view(state_.gradients);
  if (stage_.sharded_gradients()) return ranged(g, Range::span_shard);
  return ranged(g, stage_.parts() > 1 ? Range::span_chunk : Range::span);
}

bool StageLowering::reduces(int span) const {
  const auto group =
      holds_experts(span) ? program::Group::expert_data : program::Group::data;
  // Where nothing is trained (inference), spans are empty.
  if (layout_.spans[static_cast<std::size_t>(span)].elements == 0) return false;
  // A shard is added to, whether it is the whole or not.
  return communicates() && (stage_.servers() || stage_.sharded_gradients() ||
                            stage_.mesh.group_size(group) > 1);
}

std::uint16_t StageLowering::reduce_block(bool experts) {
  const char* const name = experts ? "reduce_experts" : "reduce";
  const auto [at, fresh] = blocks_.try_emplace(name, program::kNone);
  if (!fresh) return at->second;
  builder_.begin(name);
  const EventRef ready = layer_event(ready_);
  builder_.fence(Stream::compute, {}, &ready);
  const std::uint16_t block = stage_.servers()             ? server_reduce_block()
                              : stage_.sharded_gradients() ? unit_reduce_block(experts)
                                                           : all_reduce_block(experts);
  return blocks_[name] = block;
}

// A bucket's gradients, in place; in a wider or narrower wire type through a staging buffer.
std::uint16_t StageLowering::all_reduce_block(bool experts) {
  const EventRef done = layer_event(reduced_);
  const Wait ready{layer_event(ready_), false};
  const bool scatter = stage_.strategy->sharding == Sharding::zero1;
  const auto whole = experts ? program::Group::expert_data : program::Group::data;
  const Transfer t = scatter ? over(shard_group(experts), Collective::reduce_scatter,
                                    program::Algorithm::ring, Traffic::gradients,
                                    stage_.reduce_type())
                             : over(whole, Collective::all_reduce,
                                    algorithm_of(stage_.strategy->grad_sync), Traffic::gradients,
                                    stage_.reduce_type());
  const View gradients = ranged(constant_view(state_.gradients), Range::span);
  if (staging_ == program::kNone) {
    builder_.emit({.kind = ActionKind::collective, .stream = Stream::gradient, .args = {gradients},
                   .op = builder_.transfer(t), .waits = {ready}, .signal = &done});
    return builder_.end();
  }
  const View staging = layer_view(staging_);
  // The gradient stream may touch the staging buffer once compute has come to its allocation.
  builder_.alloc(staging);
  builder_.emit({.kind = ActionKind::cast, .stream = Stream::gradient, .args = {gradients, staging},
                 .waits = {ready}});
  builder_.emit({.kind = ActionKind::collective, .stream = Stream::gradient, .args = {staging},
                 .op = builder_.transfer(t)});
  const View from = scatter ? ranged(staging, Range::unit_chunk) : staging;
  const View to = scatter ? ranged(gradients, Range::span_chunk) : gradients;
  builder_.emit({.kind = ActionKind::cast, .stream = Stream::gradient, .args = {from, to},
                 .signal = &done});
  return builder_.end();
}

// A unit's gradients of one micro-batch: reduce-scattered, the own chunk added to the shard. Where
// parameters are gathered over the same links (ZeRO-3), behind the gathers, on their stream: two
// collectives at once would only share the links.
std::uint16_t StageLowering::unit_reduce_block(bool experts) {
  const bool gathers = stage_.sharded_weights();
  const Stream stream = gathers ? Stream::parameter : Stream::gradient;
  const EventRef done = layer_event(reduced_);
  const Wait ready{layer_event(ready_), false};
  const Transfer t = over(shard_group(experts), Collective::reduce_scatter,
                          program::Algorithm::ring, Traffic::gradients, stage_.reduce_type());
  View unit = layer_view(state_.unit_gradients);
  if (staging_ != program::kNone) {
    builder_.alloc(layer_view(staging_));
    builder_.emit({.kind = ActionKind::cast, .stream = stream,
                   .args = {unit, layer_view(staging_)}, .waits = {ready}});
    unit = layer_view(staging_);
  }
  builder_.emit({.kind = ActionKind::collective, .stream = stream, .args = {unit},
                 .op = builder_.transfer(t), .waits = {ready}});
  View own = ranged(unit, Range::unit_chunk);
  if (stage_.offloads_params()) {
    copy(stream, own, layer_view(host_gradients_));
    own = layer_view(host_gradients_);
  }
  builder_.emit({.kind = ActionKind::accumulate,
                 .stream = stream,
                 .args = {own, ranged(constant_view(state_.gradients), Range::span_shard)},
                 .signal = &done});
  return builder_.end();
}

// An offloaded optimizer's host is sent the gradients, and the weights where it has no master copy,
// and sends the new weights back. Weights that are stored in 8 bits are cast from the master copy.
void StageLowering::emit_update(Stream stream, View gradient, bool f8) {
  const auto shard = [](std::uint16_t b) { return ranged(constant_view(b), Range::span_shard); };
  const bool apart = stage_.offloads_optimizer() && !stage_.offloads_params();
  const bool casts = f8 && state_.f8 != program::kNone;
  View weights = casts ? shard(master_) : weight_range(f8);
  if (apart) {
    copy(stream, gradient, shard(host_gradients_));
    gradient = shard(host_gradients_);
    weights = shard(host_weights_);
    if (master_ == program::kNone) copy(stream, weight_range(), weights);
  }
  // The step's version is the oldest: what its update starts from is the one before.
  if (class_.schedule.delay > 0 && master_ == program::kNone)
    builder_.emit({.kind = ActionKind::cast, .stream = stream,
                   .args = {previous_micro_batch(weights), weights}});
  Emit e{.kind = ActionKind::optimizer, .stream = stream, .args = {weights, gradient}};
  if (casts) e.flags = program::kMasterAlone;
  if (master_ != program::kNone && !casts) e.args.push_back(shard(master_));
  for (std::uint16_t b : slot_buffers_) e.args.push_back(shard(b));
  for (std::uint16_t b : scale_buffers_)
    e.args.push_back(ranged(constant_view(b), Range::span_scales));
  if (class_.scale_buffer != program::kNone) {
    e.args.push_back(constant_view(class_.scale_buffer));
    e.flags |= program::kScales;
  } else if (norm_ != program::kNone) {
    e.args.push_back(constant_view(norm_));
    e.flags |= program::kClips;
  }
  builder_.emit(e);
  if (casts)
    builder_.emit(
        {.kind = ActionKind::cast, .stream = stream, .args = {weights, weight_range(f8)}});
  if (apart) copy(stream, weights, weight_range());
}

// Whether updated weights of the ranks' parts are gathered.
bool StageLowering::regathers(bool experts) const {
  const int parts = stage_.parts(experts ? stage_.mesh.expert_data_ranks() : 1);
  return stage::gathers_updates(*stage_.strategy) && parts > 1;
}

// HSDP: the shards' gradients over the replicas, once a step.
std::uint16_t StageLowering::replica_block() {
  builder_.begin("reduce_replicas");
  const EventRef done = layer_event(reduced_);
  const Transfer t = over(program::Group::replica, Collective::all_reduce,
                          program::Algorithm::ring, Traffic::gradients, stage_.recipe.gradient);
  builder_.emit({.kind = ActionKind::collective, .stream = Stream::gradient,
                 .args = {ranged(constant_view(state_.gradients), Range::span_shard)},
                 .op = builder_.transfer(t), .waits = {{done, false}}, .signal = &done});
  return builder_.end();
}

// Tied embeddings on the first and the last of several stages: the sum of both gradients. Where it
// is early, on the gradient stream: the update waits for it.
std::uint16_t StageLowering::tied_block() {
  const bool early = reduces_tied_early();
  builder_.begin("reduce_tied");
  const Transfer t = over(program::Group::embedding, Collective::all_reduce,
                          program::Algorithm::ring, Traffic::embedding, stage_.recipe.gradient);
  Emit e{.kind = ActionKind::collective, .args = {gradient_range()}, .op = builder_.transfer(t)};
  if (!early) {
    builder_.emit(e);
    return builder_.end();
  }
  const EventRef complete = single_event(builder_.event("tied_complete", 1));
  tied_summed_ = builder_.event("tied_summed", 1);
  const EventRef summed = single_event(tied_summed_);
  builder_.fence(Stream::compute, {}, &complete);
  e.stream = Stream::gradient;
  e.waits = {{complete, false}};
  e.signal = &summed;
  builder_.emit(e);
  return builder_.end();
}

// The embeddings' gradient and the head's are complete when the last backward pass is; its weight
// gradients, which come later, are the layers'. So the ends of the pipeline need not wait for each
// other's last pass. A span that data ranks reduce follows that reduction.
bool StageLowering::reduces_tied_early() const {
  return stage_.split_backward() && layout_.tied_span >= 0 && (stage_.first || stage_.last) &&
         !reduces(layout_.tied_span);
}

std::uint16_t StageLowering::join_tied_block() {
  builder_.begin("join_tied");
  builder_.fence(Stream::compute, {{single_event(tied_summed_), false}}, nullptr);
  return builder_.end();
}

// The square of the norm of all gradients, once they are complete: that of the own ones, then its
// sums over ranks. The update waits for it.
void StageLowering::build_norm(program::Routine& routine) {
  if (norm_ == program::kNone) return;
  const View norm = constant_view(norm_);
  builder_.begin("norm.begin");
  builder_.emit({.kind = ActionKind::zero, .args = {norm}});
  call(routine, builder_.end());
  builder_.begin("norm");
  builder_.emit({.kind = ActionKind::square_sum, .args = {gradient_range(), norm}});
  const std::uint16_t own = builder_.end();
  for (std::size_t s = 0; s < layout_.spans.size(); ++s)
    if (layout_.spans[s].elements > 0) call(routine, own, static_cast<int>(s));
  builder_.begin("reduce_norm");
  for (const program::Group group : stage::norm_groups(*stage_.strategy, divides_experts_)) {
    const Transfer t = over(group, Collective::all_reduce, program::Algorithm::ring, Traffic::norm,
                            core::DType::f64);
    builder_.emit({.kind = ActionKind::collective, .args = {norm}, .op = builder_.transfer(t)});
  }
  if (class_.scale_buffer != program::kNone)
    builder_.emit({.kind = ActionKind::scale_step,
                   .args = {norm, constant_view(class_.scale_buffer)}});
  call(routine, builder_.end());
}

std::uint16_t StageLowering::update_block(bool experts, bool f8) {
  std::string name = experts ? "update_experts" : "update";
  if (f8) name += "_f8";
  const auto [at, fresh] = blocks_.try_emplace(name, program::kNone);
  if (!fresh) return at->second;
  builder_.begin(name);
  if (update_copies_ != program::kNone) builder_.alloc(layer_view(update_copies_));
  emit_update(Stream::compute, gradient_range(), f8);
  if (regathers(experts)) {
    const EventRef updated = layer_event(updated_), done = layer_event(regathered_);
    builder_.fence(Stream::compute, {}, &updated);
    const View own = weight_range(f8);
    const Transfer t = over(shard_group(experts), Collective::all_gather,
                            program::Algorithm::ring, Traffic::parameters,
                            class_.buffers[own.buffer].type);
    builder_.emit({.kind = ActionKind::collective, .stream = Stream::parameter,
                   .args = {own, ranged(own, Range::span)},
                   .op = builder_.transfer(t), .waits = {{updated, false}}, .signal = &done});
  }
  return at->second = builder_.end();
}

std::uint16_t StageLowering::close_staging_block() {
  const auto [at, fresh] = blocks_.try_emplace("close_staging", program::kNone);
  if (!fresh) return at->second;
  builder_.begin("close_staging");
  builder_.fence(Stream::compute, {{layer_event(reduced_), false}}, nullptr);
  builder_.free(layer_view(staging_));
  return at->second = builder_.end();
}

// Before the optimizer reads a span's gradients (servers: before the step ends).
std::uint16_t StageLowering::join_block() {
  builder_.begin("join");
  if (stage_.servers()) {
    builder_.fence(Stream::compute, {{layer_event(pulled_), false}}, nullptr);
    if (stage_.serves && !asynchronous()) builder_.free(layer_view(sum_));
  } else {
    builder_.fence(Stream::compute, {{layer_event(reduced_), false}}, nullptr);
  }
  return builder_.end();
}

std::uint16_t StageLowering::join_gather_block() {
  builder_.begin("join_gather");
  builder_.fence(Stream::compute, {{layer_event(regathered_), false}}, nullptr);
  return builder_.end();
}

void StageLowering::build_begin() {
  if (!stage_.training() || stage_.apart) return;
  builder_.begin("begin");
  if (state_.gradients != program::kNone)
    builder_.emit({.kind = ActionKind::zero, .args = {constant_view(state_.gradients)}});
  if (state_.loss != program::kNone)
    builder_.emit({.kind = ActionKind::zero, .args = {constant_view(state_.loss)}});
  call(class_.begin, builder_.end());
  // Nothing but pushes holds it up, from the first on; `send` has no messages without a pipeline.
  if (serves_beside()) build_turns(class_.begin, Stream::send);
}

void StageLowering::build_end() {
  program::Routine& end = class_.end;
  const int spans = static_cast<int>(layout_.spans.size());
  const auto for_spans = [&](auto&& block_of) {
    for (int s = 0; s < spans; ++s)
      if (layout_.spans[static_cast<std::size_t>(s)].elements > 0) call(end, block_of(s), s);
  };
  if (stage_.apart) return build_turns(end, Stream::compute);
  for (int c = 0; c < static_cast<int>(stage_.chunks.size()); ++c)
    for (const bool gradient : {true, false})
      if (sends(c, gradient))
        call(class_.schedule.flushes ? end : class_.finish,
             release_sent_block(c, gradient, true));
  if (spans == 0) return;
  if (communicates() && !reduces_early() && !stage_.sharded_gradients())
    for (int s = 0; s < spans; ++s) {
      if (!reduces(s)) continue;
      call(end, reduce_block(holds_experts(s)), s);
      if (staging_ != program::kNone) call(end, close_staging_block(), s);
    }
  if (communicates()) {
    const std::uint16_t join = join_block();
    for_spans([&](int s) { return reduces(s) ? join : program::kNone; });
  }
  if (stage_.servers()) return;
  if (!stage_.sharded_gradients())
    for (std::size_t u = 0; u < layout_.units.size(); ++u)
      call(end, partial_block(static_cast<int>(u)), static_cast<int>(u));
  if (layout_.tied_span >= 0 && (stage_.first || stage_.last))
    call(end, reduces_tied_early() ? join_tied_block() : tied_block(), layout_.tied_span);
  build_norm(end);
  update_block(false, false);  // these blocks come first, whether spans use them or not
  if (divides_experts_) update_block(true, false);
  for_spans([&](int s) { return update_block(holds_experts(s), layout_.in_f8(s)); });
  if (update_copies_ != program::kNone) {
    builder_.begin("free_update_copies");
    builder_.free(layer_view(update_copies_));
    const std::uint16_t done = builder_.end();
    for_spans([&](int) { return done; });
  }
  if (!regathers(false)) return;
  const std::uint16_t join = join_gather_block();
  for_spans([&](int s) { return regathers(holds_experts(s)) ? join : program::kNone; });
}

}  // namespace planner::lowering
