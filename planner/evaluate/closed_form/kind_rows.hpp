#pragma once
// Internal: layers of several kinds in the closed form. A chunk's layers are a row of kinds; equal
// rows have one number, so that chunks that are alike are found alike. A pass through such a chunk
// has a use of each layer's kind, and is put into rows and groups of uses anew. Models of one kind
// have row 0 alone.
//
// Slots and units number what kinds have apart: a piece of a layer, a layer's unit.

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "planner/stage/script.hpp"

namespace planner::closed_form {

using stage::kPieces;
using stage::Piece;
using stage::UnitKind;

// Models with more are lowered.
inline constexpr std::size_t kMostKinds = 4;
inline constexpr std::size_t kSlots = kPieces * kMostKinds;
inline constexpr std::size_t kUnits = stage::kUnitKinds + kMostKinds - 1;

// Of a piece; of the ends' pieces kind is 0.
inline std::size_t slot_of(Piece piece, std::size_t kind = 0) {
  return stage::index(piece) + kPieces * kind;
}
// Of a unit; of the first kind of layer, and of the ends', as in stage/script.hpp.
inline std::size_t unit_of(UnitKind unit, std::size_t kind = 0) {
  return unit == UnitKind::layer && kind > 0 ? stage::kUnitKinds + kind - 1 : stage::index(unit);
}

class KindRows {
 public:
  using Kinds = std::vector<std::uint8_t>;
  static constexpr std::int64_t kMost = 1024;  // rows

  // The kind of each layer of the model, which is the same in all of its graphs: the first time
  // counts.
  void take(const std::vector<int>& layers);
  bool several() const { return several_; }
  // The number of layers [first, first + count): 0 if all are of kind 0. kMost: too many rows.
  std::int64_t row(std::int64_t first, std::int64_t count);
  // Of row 0: none.
  const Kinds& kinds(std::int64_t row) const { return rows_[static_cast<std::size_t>(row)]; }

 private:
  Kinds layers_;
  bool several_ = false;
  std::vector<Kinds> rows_{Kinds{}};
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> known_;
};

// Written to `out`, whose storage is used again. kinds: of the chunk's layers. O(uses).
void by_kind(const stage::Pass& pass, std::span<const std::uint8_t> kinds, stage::Pass& out);

}  // namespace planner::closed_form
