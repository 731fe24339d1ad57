#include "planner/stage/script.hpp"

#include <algorithm>

namespace planner::stage {
namespace {

class Describer {
 public:
  Describer(const ScriptQuestion& q, const ChunkShape& c) : q_(q), c_(c) {
    if (q.training && q.strategy.checkpoint == Checkpoint::first_k) {
      alone_ = true;
      again_ = std::min(q.strategy.checkpoint_every, c.layers);
    }
    if (!q.training || q.strategy.checkpoint != Checkpoint::every_k) return;
    every_ = q.strategy.checkpoint_every;
    alone_ = q.policy.one_in_k;
    const std::int64_t ahead = alone_ ? c.before % every_ : 0, until = every_ - ahead;
    lead_ = ahead > 0 && c.layers >= until ? until : 0;
    full_ = (c.layers - lead_) / every_;
    rest_ = (c.layers - lead_) % every_;
  }

  void forward(Pass& pass) {
    pass_ = &pass;
    pass.groups.clear();
    if (c_.first && q_.reads_input) {
      Use use{.piece = Piece::prologue, .reads = {UnitKind::embeddings, UnitKind::tied}};
      if (q_.keeps_root) use.reads.add(UnitKind::final);
      end(use);
    }
    if (q_.strategy.checkpoint == Checkpoint::memory_poor && q_.training)
      forward_poor();
    else if (every_ > 0)
      forward_segments();
    else if (again_ > 0)
      forward_first();
    else
      up(open(), q_.training ? Piece::layer_keep : Piece::layer_drop, 0, c_.layers);
    std::erase_if(pass.groups, [](const Group& g) { return g.count == 0; });
    if (q_.training || !c_.last) return;
    Use head{.piece = Piece::epilogue, .reads = {UnitKind::final}};
    if (!q_.both_ends) head.reads.add(UnitKind::tied);
    end(head);
  }

  void backward(Pass& pass) {
    pass_ = &pass;
    pass.groups.clear();
    if (!q_.training) return;
    if (c_.last) {
      // The gradient of tied weights opens here; of one table, it is complete with the embeddings'.
      Use head{.piece = Piece::epilogue, .opens = {UnitKind::final, UnitKind::tied},
               .completes = {UnitKind::final}};
      if (!q_.keeps_root) head.reads = head.opens;
      if (!q_.both_ends) head.completes.add(UnitKind::tied);
      end(head);
    }
    if (q_.strategy.checkpoint == Checkpoint::memory_poor)
      backward_poor();
    else if (every_ > 0)
      backward_segments();
    else if (again_ > 0)
      backward_first();
    else
      down(open(), c_.layers - 1, c_.layers, true);
    std::erase_if(pass.groups, [](const Group& g) { return g.count == 0; });
    if (!c_.first) return;
    Use tail{.piece = Piece::prologue_backward, .opens = {UnitKind::embeddings},
             .completes = {UnitKind::embeddings, UnitKind::tied}};
    if (q_.embeddings_read && q_.embeddings_train && !q_.keeps_root)
      tail.reads.add(UnitKind::embeddings);
    if (!q_.both_ends) tail.opens.add(UnitKind::tied);
    end(tail);
  }

 private:
  Group& open(std::int64_t times = 1, std::int64_t shift = 0) {
    Group& g = pass_->groups.emplace_back();
    g.times = times;
    g.shift = shift;
    return g;
  }
  void end(const Use& use) { add(open(), {.use = use}); }
  static void add(Group& g, const Row& row) {
    if (row.count > 0) g.rows[g.count++] = row;
  }
  // `count` layers forward, or backward, from `layer` on.
  static void up(Group& g, Piece piece, std::int64_t layer, std::int64_t count) {
    add(g, {.use = {.piece = piece, .reads = {UnitKind::layer}}, .count = count, .layer = layer,
            .step = 1});
  }
  // `ends`: the pass ends with them. What was recomputed last is differentiated first.
  void down(Group& g, std::int64_t layer, std::int64_t count, bool ends) const {
    const Use use{.piece = Piece::backward, .reads = {UnitKind::layer},
                  .opens = {UnitKind::layer}, .completes = {UnitKind::layer}};
    const bool stops = ends && c_.first && !q_.embeddings_train && count > 0;
    bool same = g.count > 0;
    add(g, {.use = use, .count = count - stops, .layer = layer, .step = -1, .same_layer = same});
    if (!stops) return;
    same &= count == 1;
    Use first = use;
    first.piece = Piece::backward_first;
    add(g, {.use = first, .layer = layer - count + 1, .step = -1, .same_layer = same});
  }

  // ---- every_k: segments of k layers that are computed again from the first one's input; or one
  // layer in k, the last of its segment, that is computed again alone from its own.
  void forward_segment(Group& g, std::int64_t begin, std::int64_t n, bool whole) const {
    if (!alone_) {
      up(g, Piece::layer_hold, begin, 1);
      up(g, Piece::layer_drop, begin + 1, n - 1);
      return;
    }
    up(g, Piece::layer_keep, begin, n - whole);
    if (whole) up(g, Piece::layer_hold, begin + n - 1, 1);
  }
  void forward_segments() {
    if (lead_ > 0) forward_segment(open(), 0, lead_, true);
    if (full_ > 0) forward_segment(open(full_, every_), lead_, every_, true);
    if (rest_ > 0) forward_segment(open(), c_.layers - rest_, rest_, false);
  }
  // The segment's last layer is `last`.
  void backward_segment(Group& g, std::int64_t last, std::int64_t n, bool whole,
                        bool ends) const {
    if (!alone_) up(g, Piece::layer_keep, last - n + 1, n - 1);
    if (!alone_ || whole) up(g, Piece::recompute, last, 1);
    down(g, last, n, ends);
  }
  void backward_segments() {
    const bool stops = c_.first && !q_.embeddings_train;
    if (rest_ > 0)
      backward_segment(open(), c_.layers - 1, rest_, false, full_ + lead_ == 0);
    const std::int64_t begin = c_.layers - rest_ - 1;
    const std::int64_t apart = lead_ == 0 && stops && full_ > 0;  // the last one
    if (full_ > apart)
      backward_segment(open(full_ - apart, -every_), begin, every_, true, false);
    if (apart > 0)
      backward_segment(open(), begin - (full_ - 1) * every_, every_, true, true);
    if (lead_ > 0) backward_segment(open(), lead_ - 1, lead_, true, true);
  }

  // ---- first_k: the first layers of the chunk are computed again, each alone from its own input.
  void forward_first() {
    Group& g = open();
    up(g, Piece::layer_hold, 0, again_);
    up(g, Piece::layer_keep, again_, c_.layers - again_);
  }
  void backward_first() {
    down(open(), c_.layers - 1, c_.layers - again_, false);
    const std::int64_t apart = c_.first && !q_.embeddings_train;  // the last one
    if (again_ > apart) backward_segment(open(again_ - apart, -1), again_ - 1, 1, true, false);
    if (apart > 0) backward_segment(open(), 0, 1, true, true);
  }

  // ---- memory_poor: the first layer's input alone is kept, and every layer is computed again from
  // it. Without a pipeline the last layer's backward pass follows its forward pass at once.
  bool keeps_last() const { return q_.strategy.pipeline == 1; }
  void forward_poor() {
    const bool last = keeps_last() && c_.layers > 0;
    Group& g = open();
    const std::int64_t again = c_.layers - last;
    up(g, Piece::layer_hold, 0, std::min<std::int64_t>(again, 1));
    up(g, Piece::layer_drop, 1, again - 1);
    if (last) up(g, Piece::layer_keep, again, 1);
  }
  void backward_poor() {
    for (std::int64_t l = c_.layers - 1; l >= 0; --l) {
      Group& g = open();
      if (!keeps_last() || l + 1 < c_.layers) {
        up(g, Piece::layer_hold, 0, std::min<std::int64_t>(l, 1));
        up(g, Piece::layer_drop, 1, l - 1);
        up(g, Piece::recompute, l, 1);
      }
      down(g, l, 1, l == 0);
    }
  }

  const ScriptQuestion& q_;
  const ChunkShape& c_;
  Pass* pass_ = nullptr;
  std::int64_t every_ = 0, lead_ = 0, full_ = 0, rest_ = 0;
  std::int64_t again_ = 0;             // of first_k
  bool alone_ = false;
};

}  // namespace

bool Pass::has(Piece piece) const {
  return std::ranges::any_of(groups, [&](const Group& g) {
    const auto rows = g.rows.begin();
    return std::any_of(rows, rows + static_cast<std::ptrdiff_t>(g.count),
                       [&](const Row& row) { return row.use.piece == piece; });
  });
}

void describe(const ScriptQuestion& question, const ChunkShape& chunk, ChunkScript& script) {
  Describer describer(question, chunk);
  describer.forward(script.forward);
  describer.backward(script.backward);
}

}  // namespace planner::stage
