// The routines of one chunk: which layers, in which order, and what recomputes them.
#include <algorithm>

#include "planner/lowering/stage_lowering.hpp"

#include "planner/lowering/lower.hpp"
#include "planner/strategy/schedules.hpp"

namespace planner::lowering {

void StageLowering::build_forward(int index) {
  program::Routine& routine = routines(index).forward;
  const Chunk& own = chunk(index);
  const auto checkpoint = stage_.training() ? stage_.strategy->checkpoint : Checkpoint::none;
  std::vector<Use> uses;
  const auto release = [&] {
    if (sends(index, false)) call(routine, release_sent_block(index, false, false));
  };
  if (!releases_late(*stage_.strategy)) release();
  const bool reads = !stage_.cut || stage_.graph->templates[0].input >= 0;
  if (own.first && reads) {
    builder_.begin("prologue.forward");
    Boundary b;
    b.input = constant_view(x_);
    b.output = own.end == own.begin ? output_view(index) : b.input;
    const bool keeps = stage_.training() && prologue_->trains();
    prologue_->forward(keeps ? ForwardMode::keep : ForwardMode::drop, b);
    std::vector<int> units = unit_list(SegmentKind::prologue);
    if (stage_.keeps_root()) std::ranges::copy(unit_list(SegmentKind::epilogue),
                                               std::back_inserter(units));
    uses.push_back({{builder_.end(), 0, 0}, units, {}, {}});
  } else if (!taken_over(index) && !stage_.cut) {
    call(routine, receive_block(index, false));
  }
  const std::size_t first_layer = uses.size();
  for (int l = own.begin; l < own.end; ++l) {
    const bool keep = stage_.training() && (stage_.keeps(l) || keeps_last(l));
    const bool is_checkpoint =
        checkpoint == Checkpoint::every_k       ? (l - own.begin) % stage_.segment() == 0
        : checkpoint == Checkpoint::memory_poor ? l == own.begin
                                                : false;
    // A part may read the model's input without keeping it; layers of a whole graph keep theirs.
    const bool passes = stage_.cut && !templates_[0]->keeps_input();
    uses.push_back(layer_forward(l, keep ? ForwardMode::keep : ForwardMode::drop,
                                 (!keep && !is_checkpoint) || passes));
    ++class_.forward_evaluations;
  }
  stash_after(uses, own, first_layer);
  if (!stage_.training() && own.last) {
    builder_.begin("epilogue.forward");
    Boundary b;
    b.input = x_view(index, own.end);
    if (epilogue_->empty()) {
      builder_.free(b.input);
    } else {
      program::Buffer logits;
      logits.name = "epilogue.logits";
      logits.term = program::Term::logits;
      logits.type = stage_.recipe.activation;
      const models::Segment& head = stage_.graph->epilogue;
      logits.elements = {head.tensors[static_cast<std::size_t>(head.output)].per_sample *
                         stage_.samples};
      b.output = constant_view(builder_.buffer(std::move(logits)));
      epilogue_->forward(ForwardMode::drop, b);
      builder_.free(b.output);
    }
    uses.push_back({{builder_.end(), 0, 0}, unit_list(SegmentKind::epilogue), {}, {}});
  }
  append_uses(routine, uses, false);
  if (releases_late(*stage_.strategy)) release();
  if (sends(index, false)) call(routine, send_block(index, false));
}

// Backward of a chunk's layers, recomputing what the forward pass dropped.
void StageLowering::append_layer_backwards(std::vector<Use>& uses, const Chunk& own) {
  const auto recompute = [&](int l, ForwardMode mode, bool free_input) {
    Use use = layer_forward(l, mode, free_input);
    if (use.call.block == program::kNone) return;
    ++class_.forward_evaluations;
    uses.push_back(std::move(use));
  };
  switch (stage_.strategy->checkpoint) {
    case Checkpoint::every_k: {
      const int k = static_cast<int>(stage_.segment());
      for (int a = own.begin + (own.end - own.begin - 1) / k * k; a >= own.begin; a -= k) {
        const int b = std::min(a + k, own.end);
        for (int l = a; l < b; ++l)
          if (!stage_.keeps(l))
            recompute(l, l + 1 < b ? ForwardMode::keep : ForwardMode::recompute, false);
        for (int l = b - 1; l >= a; --l) uses.push_back(layer_backward(l));
      }
      return;
    }
    case Checkpoint::memory_poor:
      for (int l = own.end - 1; l >= own.begin; --l) {
        if (!keeps_last(l)) {
          for (int j = own.begin; j < l; ++j) recompute(j, ForwardMode::drop, j > own.begin);
          recompute(l, keeps_output(l) && l + 1 < own.end ? ForwardMode::keep
                                                                : ForwardMode::recompute,
                    false);
        }
        uses.push_back(layer_backward(l));
      }
      return;
    default:
      for (int l = own.end - 1; l >= own.begin; --l) uses.push_back(layer_backward(l));
  }
}

void StageLowering::build_backward(int index, bool last_micro_batch) {
  program::PassRoutines& all = routines(index);
  program::Routine& routine = last_micro_batch ? all.last_backward : all.backward;
  const Chunk& own_chunk = chunk(index);
  const std::int64_t evaluations = class_.forward_evaluations;
  std::vector<Use> uses;
  // A chunk that takes over shares its gradient with the one before it, which sends it.
  const int sender = taken_over(index) ? index - 1 : index;
  const auto release = [&] {
    if (sends(sender, true) && !hands_on(index))
      call(routine, release_sent_block(sender, true, false));
  };
  if (!releases_late(*stage_.strategy)) release();
  if (own_chunk.last) {
    Boundary b;
    b.input = x_view(index, own_chunk.end);
    b.d_input = d_view(index, own_chunk.end);
    b.free_input = !keeps_end(own_chunk);
    if (blocks_.count("epilogue") == 0) {
      builder_.begin("epilogue");
      epilogue_->forward_and_backward(b);
      blocks_["epilogue"] = builder_.end();
    }
    std::vector<int> own = unit_list(SegmentKind::epilogue), reads = own, opens = own;
    if (stage_.first)  // tied weights belong to the prologue's units: their gradient opens here
      for (int u : unit_list(SegmentKind::prologue))
        if (layout_.units[static_cast<std::size_t>(u)].name == "tied")
          reads.push_back(u), opens.push_back(u);
    if (!epilogue_->trains()) own.clear(), opens.clear();
    if (stage_.keeps_root()) reads.clear();
    uses.push_back({{blocks_["epilogue"], 0, 0}, reads, opens, own});
  } else if (!hands_on(index) && !stage_.cut) {
    call(routine, receive_block(index, true));
  }
  const std::size_t first_layer = uses.size();
  append_layer_backwards(uses, own_chunk);
  fetch_before(uses, first_layer);
  if (own_chunk.first) {
    std::vector<int> own = prologue_->trains() ? unit_list(SegmentKind::prologue)
                                               : std::vector<int>{};
    std::vector<int> opens = own;
    if (stage_.last)
      std::erase_if(opens, [&](int u) {
        return layout_.units[static_cast<std::size_t>(u)].name == "tied";
      });
    std::vector<int> reads;
    if (prologue_->trains() && prologue_->backward_reads_weights() && !stage_.keeps_root())
      std::ranges::copy_if(own, std::back_inserter(reads), [&](int u) {
        return layout_.units[static_cast<std::size_t>(u)].name != "tied";
      });
    uses.push_back({{prologue_backward_block(), 0, 0}, reads, opens, own});
  }
  open_staging_ = -1;
  append_uses(routine, uses, last_micro_batch);
  close_gradients(routine);
  for (int u = 0; u < static_cast<int>(layout_.units.size()); ++u)
    if (is_root(u)) call(routine, release_block(u), u);
  if (open_staging_ >= 0) call(routine, close_staging_block(), open_staging_);
  if (last_micro_batch && reduces_tied_early()) call(routine, tied_block(), layout_.tied_span);
  if (releases_late(*stage_.strategy)) release();
  if (sends(index, true)) call(routine, send_block(index, true));
  if (last_micro_batch) class_.forward_evaluations = evaluations;
}

void StageLowering::build_weight_gradient(int index, bool last_micro_batch) {
  program::PassRoutines& all = routines(index);
  program::Routine& routine = last_micro_batch ? all.last_weight_gradient : all.weight_gradient;
  for (int l = chunk(index).end - 1; l >= chunk(index).begin; --l) {
    LayerKey key = backward_key(l);
    key.kind = kWeightGradient;
    call(routine, layer_blocks_.at(key), l);
  }
}

}  // namespace planner::lowering
