#pragma once
// The stage script: what each pass through one chunk of layers does, in order. A pass is a list of
// uses: one computation with the units (parameters that are gathered, cast and reduced together)
// that it reads, whose gradients it opens, and whose gradients it completes. Uses that are alike
// stand together in rows, and rows that repeat in groups, so a script does not grow with the number
// of layers (but under memory_poor, which recomputes each layer from the first one).
//
// Stated here alone: the lowering expands a script into the calls of a RankClass, use by use; the
// closed form folds it (fold.hpp), row by row, into memory and time. Pure.

#include <array>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "planner/stage/policy.hpp"
#include "planner/strategy/strategy.hpp"

namespace planner::stage {

enum class Piece : std::uint8_t {
  prologue,           // embeddings
  layer_keep,         // forward of a layer; keeps what its backward reads
  layer_hold,         // forward that keeps its input alone: a checkpoint
  layer_drop,         // forward that keeps nothing
  recompute,          // of a segment's last layer: without what only the output needs
  backward,           // of a layer
  backward_first,     // of the model's first layer: frozen embeddings need no gradient
  epilogue,           // head and loss, forward and backward (inference: forward alone)
  prologue_backward,
  weight_gradient     // of a layer, where backward leaves it out (zb_h1, zb_h2)
};
inline constexpr std::size_t kPieces = 10;
inline constexpr std::size_t index(Piece p) { return static_cast<std::size_t>(p); }

// layer: with its experts. final: last norm and head. tied: a token table that both ends read.
enum class UnitKind : std::uint8_t { layer, final, tied, embeddings };
inline constexpr std::size_t kUnitKinds = 4;
inline constexpr std::size_t index(UnitKind u) { return static_cast<std::size_t>(u); }

// A few units, in order.
class Units {
 public:
  Units() = default;
  Units(std::initializer_list<UnitKind> units) {
    for (const UnitKind u : units) add(u);
  }
  void add(UnitKind u) { units_[count_++] = u; }
  const UnitKind* begin() const { return units_.data(); }
  const UnitKind* end() const { return units_.data() + count_; }
  friend bool operator==(const Units&, const Units&) = default;

 private:
  std::array<UnitKind, 3> units_{};
  std::uint8_t count_ = 0;
};

struct Use {
  Piece piece{};
  Units reads{}, opens{}, completes{};
  std::uint8_t kind = 0;               // of the layer; scripts leave it to who reads them
  friend bool operator==(const Use&, const Use&) = default;
};

// So many uses alike, each of the next layer.
struct Row {
  Use use;
  std::int64_t count = 1;
  std::int64_t layer = kNoLayer;       // of the first one, counted in the chunk
  int step = 0;                        // to the next one's: 1 or -1
  bool same_layer = false;             // the first one's is that of the use before it
  static constexpr std::int64_t kNoLayer = -1;
};

// Rows in turn, so many times, each time so many layers further.
struct Group {
  std::array<Row, 4> rows;
  std::size_t count = 0;
  std::int64_t times = 1, shift = 0;
};

struct Pass {
  std::vector<Group> groups;

  bool has(Piece piece) const;
  // visit(use, layer), in order. O(uses).
  template <class Visit>
  void each(Visit&& visit) const {
    for (const Group& g : groups)
      for (std::int64_t t = 0; t < g.times; ++t)
        for (std::size_t r = 0; r < g.count; ++r)
          for (std::int64_t i = 0; i < g.rows[r].count; ++i)
            visit(g.rows[r].use, g.rows[r].layer + t * g.shift + i * g.rows[r].step);
  }
};

// A chunk of a rank's layers, as far as its passes depend on it.
struct ChunkShape {
  bool first = true, last = true;      // has the model's embeddings; its head
  std::int64_t layers = 0;
  std::int64_t before = 0;             // layers of the rank's chunks before it
  std::int64_t kinds = 0;              // what its layers are, as who asks numbers them: see there
  friend bool operator==(const ChunkShape&, const ChunkShape&) = default;
};

struct ScriptQuestion {
  const Policy& policy;
  const Strategy& strategy;            // resolved
  bool training = true;
  bool both_ends = true;               // the rank has embeddings and head: one tied table
  bool keeps_root = false;             // stage::keeps_root, of a stage that trains
  bool reads_input = true;             // a chunk that is the model's first has embeddings
  bool embeddings_train = true;
  bool embeddings_read = false;        // their backward pass reads weights: they have a norm
};

struct ChunkScript {
  Pass forward, backward;
};
// Written to `script`, whose storage is used again.
void describe(const ScriptQuestion& question, const ChunkShape& chunk, ChunkScript& script);

}  // namespace planner::stage
