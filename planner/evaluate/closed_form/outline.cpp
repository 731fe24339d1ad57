#include "planner/evaluate/closed_form/outline.hpp"

#include <algorithm>

#include "core/check.hpp"
#include "models/spec.hpp"

namespace planner::closed_form {
namespace {

using stage::Row;

UnitSet bit(std::size_t unit) { return static_cast<UnitSet>(1 << unit); }
UnitSet reads_of(const stage::Use& use) { return set_of(use.reads, use.kind); }

class Outliner {
 public:
  Outliner(UnitSet trains, const Manner& manner, Outline& outline)
      : trains_(trains), manner_(manner), outline_(outline) {}

  void run(const stage::Pass& pass) {
    outline_.leaves.clear();
    outline_.blocks.clear();
    outline_.pieces = {};
    outline_.asks = outline_.opens = {};
    outline_.completes = {};
    for (std::size_t g = 0; g < pass.groups.size(); ++g) {
      const bool last = g + 1 == pass.groups.size();
      add_group(pass.groups[g], last ? nullptr : pass.groups[g + 1].rows.data());
    }
    for (const Outline::Block& block : outline_.blocks)
      for (std::size_t i = block.first; i < block.last; ++i)
        count(outline_.leaves[i], block.times * outline_.leaves[i].times);
    outline_.stages_buckets = manner_.stages_buckets;
  }

 private:
  void count(const Outline::Leaf& leaf, std::int64_t times) {
    outline_.pieces.add(leaf.slot, times);
    if (leaf.asks != 0) outline_.asks.add(leaf.asks, times);
    if (leaf.opens != 0) outline_.opens.add(leaf.opens, times);
    for (std::size_t c = 0; c < leaf.completes; ++c)
      outline_.completes.add(leaf.completions[c].unit, times);
  }

  // Of gradients, between uses.
  struct State {
    UnitSet open = 0, done = 0, reducing = 0;
    friend bool operator==(const State&, const State&) = default;
  };

  static bool shares(const Row& row, const Row* next) {
    return next != nullptr && next != &row && next->same_layer;
  }
  // Whether a use of the row is the same before one of `next` as before one of `other`.
  bool alike(const Row& row, const Row* next, const Row* other) const {
    if (!manner_.copies) return true;
    if (next == nullptr || other == nullptr) return next == other;
    return shares(row, next) == shares(row, other) && reads_of(next->use) == reads_of(other->use);
  }
  bool begins() const { return outline_.leaves.empty() && manner_.gathers_ahead; }

  // `first`: of its row. `next`: the row of the use behind it, null at the end.
  void add_leaf(const Row& row, bool first, const Row* next, std::int64_t times) {
    const stage::Use& use = row.use;
    const bool asks = !(first && row.same_layer) && (begins() || !manner_.gathers_ahead);
    Outline::Leaf& leaf = outline_.leaves.emplace_back();
    leaf.slot = static_cast<std::uint8_t>(slot_of(use.piece, use.kind));
    leaf.times = static_cast<std::int32_t>(times);
    if (manner_.copies) {
      const UnitSet reads = reads_of(use);
      leaf.reads = manner_.keeps_root && use.piece == Piece::prologue ? 0 : reads;
      if (asks) leaf.asks = reads;
      if (shares(row, next))
        leaf.keeps = leaf.reads;
      else if (next != nullptr)
        leaf.next = reads_of(next->use);
    }
    leaf.opens = set_of(use.opens, use.kind) & trains_;
    state_.open |= leaf.opens;
    leaf.open = state_.open;
    leaf.done = state_.done;
    leaf.reducing = state_.reducing;
    for (const UnitKind of : use.completes) {
      const std::size_t unit = unit_of(of, use.kind);
      if ((trains_ & bit(unit)) == 0) continue;
      leaf.completions[leaf.completes++] = {static_cast<std::uint8_t>(unit), state_.open};
      state_.open &= static_cast<UnitSet>(~bit(unit));
      if (manner_.stages_buckets) state_.done |= bit(unit);
      state_.reducing = bit(unit);
    }
  }

  bool steady(const State& before) const {
    return state_ == before || !(manner_.reduces || manner_.stages_buckets);
  }

  // The first use, those between, the last one: as far as they differ.
  void add_row(const Row& row, const Row* next) {
    const State before = state_;
    const bool apart = begins() || (row.same_layer && manner_.copies);
    add_leaf(row, true, row.count > 1 ? &row : next, 1);
    const std::int64_t inner = row.count - 1 - (alike(row, &row, next) ? 0 : 1);
    if (inner > 0 && steady(before) && !apart)
      outline_.leaves.back().times += static_cast<std::int32_t>(inner);
    else if (inner > 0)
      add_leaf(row, false, &row, inner);
    if (row.count - 1 > std::max<std::int64_t>(inner, 0)) add_leaf(row, false, next, 1);
  }

  void add_block(const stage::Group& group, const Row* next, std::int64_t times) {
    const std::size_t first = outline_.leaves.size();
    for (std::size_t r = 0; r < group.count; ++r)
      add_row(group.rows[r], r + 1 < group.count ? &group.rows[r + 1] : next);
    outline_.blocks.push_back({static_cast<std::uint32_t>(first),
                               static_cast<std::uint32_t>(outline_.leaves.size()), times});
  }

  // The same of its repetitions.
  void add_group(const stage::Group& group, const Row* after) {
    const Row* const rows = group.rows.data();
    const State before = state_;
    const bool apart = begins();
    add_block(group, group.times > 1 ? rows : after, 1);
    const bool ends_alike = alike(rows[group.count - 1], rows, after);
    const std::int64_t inner = group.times - 1 - (ends_alike ? 0 : 1);
    if (inner > 0 && steady(before) && !apart)
      outline_.blocks.back().times += inner;
    else if (inner > 0)
      add_block(group, rows, inner);
    if (group.times - 1 > std::max<std::int64_t>(inner, 0)) add_block(group, after, 1);
  }

  UnitSet trains_;
  Manner manner_;
  Outline& outline_;
  State state_;
};

}  // namespace

void outline_of(const stage::Pass& pass, UnitSet trains, const Manner& manner,
                Outline& outline) {
  Outliner(trains, manner, outline).run(pass);
}

const Outline* Outlines::kept(const stage::Pass& pass, UnitSet trains, const Manner& manner) {
  outline_of(pass, trains, manner, outline_);
  std::uint64_t hash = 0;
  const auto add = [&](std::uint64_t part) { hash = (hash ^ part) * 0x100000001b3; };
  for (const Outline::Leaf& leaf : outline_.leaves) {
    add((static_cast<std::uint64_t>(leaf.times) << 8) | leaf.slot);
    add(leaf.reads | static_cast<std::uint64_t>(leaf.open) << 8);
  }
  for (const Outline::Block& block : outline_.blocks) add(static_cast<std::uint64_t>(block.times));
  const auto [first, last] = kept_.equal_range(hash);
  for (auto at = first; at != last; ++at)
    if (at->second == outline_) return &at->second;
  return &kept_.emplace(hash, outline_)->second;
}

const Outlines::Passes& Outlines::of(const stage::ScriptQuestion& q, const stage::ChunkShape& c,
                                     const KindRows& rows, UnitSet trains, const Manner& m) {
  const auto every = static_cast<std::uint64_t>(q.strategy.checkpoint_every);
  const auto layers = static_cast<std::uint64_t>(c.layers);
  const auto before = static_cast<std::uint64_t>(c.before);
  const auto kinds = static_cast<std::uint64_t>(c.kinds);
  PLANNER_CHECK(std::max({every, layers, before}) < 1 << 17 && kinds < 1 << 13,
                "too many layers for a key");
  static_assert(models::kMaxLayers + 1 < 1 << 17);
  Key key;
  key.shape = (kinds << 51) | (every << 34) | (layers << 17) | before;
  for (const bool flag : {c.first, c.last, q.keeps_root, m.gathers_ahead, m.reduces,
                          m.stages_buckets, m.copies})
    key.manner = (key.manner << 1) | static_cast<std::uint64_t>(flag);
  key.manner = (key.manner << 10) |
               (static_cast<std::uint64_t>(q.strategy.checkpoint) << 7) | trains;
  const auto [at, fresh] = known_.try_emplace(key);
  if (!fresh) return at->second;
  describe(q, c, script_);
  const stage::ChunkScript& script = c.kinds == 0 ? script_ : apart_;
  if (c.kinds > 0) {
    by_kind(script_.forward, rows.kinds(c.kinds), apart_.forward);
    by_kind(script_.backward, rows.kinds(c.kinds), apart_.backward);
  }
  at->second = {kept(script.forward, trains, m), kept(script.backward, trains, m)};
  return at->second;
}

}  // namespace planner::closed_form
