// Values between ranks that divide operators (models/splits.hpp): samples gathered, sums scattered,
// and this rank's samples of all columns exchanged for its columns of all samples. Backward, each
// goes the other way.
#include "core/check.hpp"
#include "planner/lowering/segment_emitter.hpp"

namespace planner::lowering {

using models::OpKind;
using models::TensorIndex;
using program::Collective;

bool SegmentEmitter::moves_between_splits(const Op& op) {
  return op.kind == OpKind::sample_gather || op.kind == OpKind::sample_scatter ||
         op.kind == OpKind::to_columns || op.kind == OpKind::to_samples;
}

// own, all: of a gather and a scatter; what goes and what comes: of an exchange.
void SegmentEmitter::emit_move(const Op& op, View x, View y, bool forward) {
  const bool exchanges = op.kind == OpKind::to_columns || op.kind == OpKind::to_samples;
  const bool gathers = (op.kind == OpKind::sample_gather) == forward;
  program::Transfer t =
      over(program::Group::expert,
           exchanges ? Collective::exchange
           : gathers ? Collective::all_gather
                     : Collective::reduce_scatter,
           exchanges ? program::Algorithm::pairwise : program::Algorithm::ring,
           program::Traffic::split, builder_.target().buffers[x.buffer].type);
  if (exchanges) {
    t.columns = op.n;
    t.to_heads = (op.kind == OpKind::to_columns) == forward;
  }
  const bool all_last = exchanges || gathers;
  builder_.emit({.kind = ActionKind::collective,
                 .args = all_last ? std::vector<View>{x, y} : std::vector<View>{y, x},
                 .op = builder_.transfer(t)});
}

// What comes is written apart where x has a gradient already, and added to it.
void SegmentEmitter::backward_move(const Op& op, int dy) {
  const TensorIndex x = op.inputs[0];
  if (!needs_gradient(x)) return consume(dy);
  if (storage_of(x) < 0) {
    bool accumulate = false;
    const int dx = gradient_target(x, &accumulate);
    PLANNER_CHECK(!accumulate, "nothing was added to it before");
    emit_move(op, view_of(dy), view_of(dx), false);
    return consume(dy);
  }
  const View part = gradient_buffer(part_buffers_[static_cast<std::size_t>(x)], x, ".part_d_");
  builder_.alloc(part);
  emit_move(op, view_of(dy), part, false);
  builder_.emit({.kind = ActionKind::accumulate, .args = {part, view_of(storage_of(x))}});
  builder_.free(part);
  consume(dy);
}

}  // namespace planner::lowering
