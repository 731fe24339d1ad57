// The routines of one chunk: its script (stage/script.hpp), expanded use by use into calls, with
// the messages of the pipeline around them.
#include <algorithm>

#include "planner/lowering/stage_lowering.hpp"

#include "planner/lowering/lower.hpp"
#include "planner/strategy/schedules.hpp"

namespace planner::lowering {

using stage::Piece;
using stage::UnitKind;

void StageLowering::describe_chunks() {
  const stage::ScriptQuestion question{
      .policy = stage_.policy,
      .strategy = *stage_.strategy,
      .training = stage_.training(),
      .both_ends = stage_.first && stage_.last,
      .keeps_root = stage_.keeps_root(),
      .reads_input = !stage_.cut || stage_.graph->templates[0].input >= 0,
      .embeddings_train = prologue_ && prologue_->trains(),
      .embeddings_read = prologue_ && prologue_->backward_reads_weights()};
  for (const Chunk& c : stage_.chunks)
    describe(question, {c.first, c.last, c.end - c.begin, c.begin}, scripts_.emplace_back());
}

// Indices of units. A layer's experts are a unit of their own where they differ between ranks, and
// so are weights that are read in 8 bits.
std::vector<int> StageLowering::indices(const stage::Units& units, int layer) const {
  std::vector<int> list;
  for (const UnitKind kind : units) {
    if (kind == UnitKind::layer) {
      // Experts are those of a mixture: other layers' are empty.
      for (int group = unit_groups_ - 1; group > 0; --group)
        if (const int unit = group * stage_.layers + layer;
            layout_.units[static_cast<std::size_t>(unit)].elements > 0)
          list.push_back(unit);
      list.push_back(layer);
      continue;
    }
    constexpr const char* kNames[stage::kUnitKinds] = {"layer", "final", "tied", "embeddings"};
    const auto is_asked = [&](const Unit& u) {
      return u.layer < 0 && u.name == kNames[stage::index(kind)];
    };
    const auto is_beside = [&](const Unit& u) {
      return u.layer < 0 && u.beside >= 0 &&
             is_asked(layout_.units[static_cast<std::size_t>(u.beside)]);
    };
    for (const bool experts : {true, false})
      for (std::size_t u = 0; u < layout_.units.size(); ++u)
        if (experts ? is_beside(layout_.units[u]) : is_asked(layout_.units[u]))
          list.push_back(static_cast<int>(u));
  }
  return list;
}

StageLowering::Use StageLowering::use_of(const stage::Use& of, std::uint16_t block, int l) const {
  return {{block, static_cast<std::uint16_t>(l), 0}, indices(of.reads, l), indices(of.opens, l),
          indices(of.completes, l)};
}

std::uint16_t StageLowering::prologue_forward_block(int index) {
  const Chunk& own = chunk(index);
  builder_.begin("prologue.forward");
  Boundary b;
  b.input = constant_view(x_);
  b.output = own.end == own.begin ? output_view(index) : b.input;
  const bool keeps = stage_.training() && prologue_->trains();
  prologue_->forward(keeps ? ForwardMode::keep : ForwardMode::drop, b);
  return builder_.end();
}

// Of a forward pass alone: the logits are all that is left, and go at once.
std::uint16_t StageLowering::epilogue_forward_block(int index) {
  builder_.begin("epilogue.forward");
  Boundary b;
  b.input = x_view(index, chunk(index).end);
  if (epilogue_->empty()) {
    builder_.free(b.input);
    return builder_.end();
  }
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
  return builder_.end();
}

std::uint16_t StageLowering::epilogue_block(int index) {
  const auto [at, fresh] = blocks_.try_emplace("epilogue", program::kNone);
  if (!fresh) return at->second;
  Boundary b;
  b.input = x_view(index, chunk(index).end);
  b.d_input = d_view(index, chunk(index).end);
  b.free_input = !keeps_end(chunk(index));
  builder_.begin("epilogue");
  epilogue_->forward_and_backward(b);
  return blocks_["epilogue"] = builder_.end();
}

// The block of a piece for local layer l. `again`: in a backward pass, which recomputes it.
std::uint16_t StageLowering::piece_block(Piece piece, int index, int l, bool again) {
  // A part may read the model's input without keeping it; layers of a whole graph keep theirs.
  const bool passes = !again && stage_.cut && !templates_[0]->keeps_input();
  switch (piece) {
    case Piece::prologue: return prologue_forward_block(index);
    case Piece::layer_keep: return layer_block(forward_key(l, ForwardMode::keep, passes));
    case Piece::layer_hold: return layer_block(forward_key(l, ForwardMode::drop, passes));
    case Piece::layer_drop: return layer_block(forward_key(l, ForwardMode::drop, true));
    case Piece::recompute: {
      const bool whole = stage_.strategy->checkpoint == Checkpoint::memory_poor &&
                         keeps_output(l) && l + 1 < chunk(index).end;
      const auto mode = whole ? ForwardMode::keep : ForwardMode::recompute;
      return layer_block(forward_key(l, mode, false));
    }
    case Piece::backward:
    case Piece::backward_first: return layer_block(backward_key(l));
    case Piece::epilogue:
      return stage_.training() ? epilogue_block(index) : epilogue_forward_block(index);
    case Piece::prologue_backward: return prologue_backward_block();
    case Piece::weight_gradient: break;  // a pass of its own
  }
  return program::kNone;
}

std::vector<StageLowering::Use> StageLowering::expand(const stage::Pass& pass, int index,
                                                      bool backward) {
  std::vector<Use> uses;
  pass.each([&](const stage::Use& use, std::int64_t layer) {
    const int l = chunk(index).begin + static_cast<int>(std::max<std::int64_t>(layer, 0));
    const std::uint16_t block = piece_block(use.piece, index, l, backward);
    const bool evaluates = use.piece >= Piece::layer_keep && use.piece <= Piece::recompute;
    if (backward && evaluates && block == program::kNone) return;  // nothing to compute again
    class_.forward_evaluations += evaluates;
    uses.push_back(use_of(use, block, layer < 0 ? 0 : l));
  });
  return uses;
}

void StageLowering::build_forward(int index) {
  program::Routine& routine = routines(index).forward;
  const Chunk& own = chunk(index);
  const auto release = [&] {
    if (sends(index, false)) call(routine, release_sent_block(index, false, false));
  };
  if (!releases_sent_late()) release();
  const stage::Pass& pass = scripts_[static_cast<std::size_t>(index)].forward;
  const bool has_input = pass.has(Piece::prologue);
  if (!has_input && !taken_over(index) && !stage_.cut) call(routine, receive_block(index, false));
  std::vector<Use> uses = expand(pass, index, false);
  stash_after(uses, own, has_input ? 1 : 0);
  append_uses(routine, uses, false);
  if (releases_sent_late()) release();
  if (sends(index, false)) call(routine, send_block(index, false));
}

void StageLowering::build_backward(int index, bool last_micro_batch) {
  program::PassRoutines& all = routines(index);
  program::Routine& routine = last_micro_batch ? all.last_backward : all.backward;
  const Chunk& own = chunk(index);
  const std::int64_t evaluations = class_.forward_evaluations;
  // A chunk that takes over shares its gradient with the one before it, which sends it.
  const int sender = taken_over(index) ? index - 1 : index;
  const auto release = [&] {
    if (sends(sender, true) && !hands_on(index))
      call(routine, release_sent_block(sender, true, false));
  };
  if (!releases_sent_late()) release();
  if (!own.last && !hands_on(index) && !stage_.cut) call(routine, receive_block(index, true));
  std::vector<Use> uses =
      expand(scripts_[static_cast<std::size_t>(index)].backward, index, true);
  fetch_before(uses, own.last ? 1 : 0, uses.size() - (own.first ? 1 : 0));
  open_staging_ = -1;
  append_uses(routine, uses, last_micro_batch);
  close_gradients(routine);
  for (int u = 0; u < static_cast<int>(layout_.units.size()); ++u)
    if (is_root(u)) call(routine, release_block(u), u);
  if (open_staging_ >= 0) call(routine, close_staging_block(), open_staging_);
  if (releases_sent_late()) release();
  if (sends(index, true)) call(routine, send_block(index, true));
  // After the send: the other end comes to this sum when it has what follows from that message.
  if (last_micro_batch && reduces_tied_early()) call(routine, tied_block(), layout_.tied_span);
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
