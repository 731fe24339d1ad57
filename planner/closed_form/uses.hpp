#pragma once
// Internal: the uses of a stage's layers in one pass, without a list of them. A pass is a short
// head (embeddings, or head and loss), a row of layers that repeats with a period, and a tail; a
// visitor walks the first periods, one period between mark() and repeat(), and the last one, so a
// pass costs O(period), whatever the number of layers. Mirrors StageLowering::build_forward and
// append_layer_backwards.

#include <algorithm>
#include <cstdint>

#include "planner/closed_form/pieces.hpp"

namespace planner::closed_form {

// Which units a use reads, by where it stands.
enum class Place : std::uint8_t { layer, embeddings, head, nothing };

struct Use {
  Piece piece{};
  Place place = Place::nothing;
  std::int64_t layer = 0;              // local
  bool completes = false;              // the gradients of its units are complete after it

  bool reads_same(const Use& other) const {
    return place == Place::layer && other.place == Place::layer && layer == other.layer;
  }
};

struct Pass {
  bool backward = false, first = true, last = true;
  bool embeddings_train = true;
  std::int64_t layers = 1;
  std::int64_t every = 0;              // checkpoint each so many layers; 0: everything is kept

  std::int64_t head() const { return (backward ? last : first) ? 1 : 0; }
  std::int64_t tail() const { return backward && first ? 1 : 0; }
  std::int64_t period() const { return every == 0 ? 1 : backward ? 2 * every : every; }
  std::int64_t periods() const { return every == 0 ? layers : layers / every; }
  // Uses before the periodic row: a backward pass begins with the layers that fill no segment.
  std::int64_t before() const {
    return head() + (backward && every > 0 ? 2 * (layers % every) : 0);
  }
  std::int64_t size() const {
    const std::int64_t row = backward && every > 0 ? 2 * layers : layers;
    return head() + row + tail();
  }

  Use at(std::int64_t i) const {
    if (i < head())
      return backward ? Use{Piece::epilogue, Place::head, 0, true}
                      : Use{Piece::prologue, Place::embeddings, 0, false};
    if (i == size() - tail()) return {Piece::prologue_backward, Place::nothing, 0, true};
    const std::int64_t j = i - head();
    if (!backward) return forward_layer(j);
    if (every == 0) return backward_layer(layers - 1 - j);
    return in_segment(j);
  }

 private:
  Use forward_layer(std::int64_t l) const {
    const Piece piece = every == 0       ? Piece::layer_keep
                        : l % every == 0 ? Piece::layer_hold
                                         : Piece::layer_drop;
    return {piece, Place::layer, l, false};
  }
  Use backward_layer(std::int64_t l) const {
    const bool stops = l == 0 && first && !embeddings_train;
    return {stops ? Piece::backward_first : Piece::backward, Place::layer, l, true};
  }
  // Segments descend; each is recomputed upwards, then differentiated downwards.
  Use in_segment(std::int64_t j) const {
    const std::int64_t rest = layers % every, full = layers / every;
    const bool partial = j < 2 * rest;
    const std::int64_t size = partial ? rest : every;
    const std::int64_t at = partial ? j : (j - 2 * rest) % (2 * every);
    const std::int64_t base =
        partial ? full * every : (full - 1 - (j - 2 * rest) / (2 * every)) * every;
    if (at >= size) return backward_layer(base + 2 * size - 1 - at);
    return {at + 1 < size ? Piece::layer_keep : Piece::recompute, Place::layer, base + at, false};
  }
};

// Visitor: step(previous, use, next) with null at the ends; mark(); repeat(times): what happened
// since mark() happens `times` more.
template <class Visitor>
void walk(const Pass& pass, Visitor& visitor) {
  constexpr std::int64_t kSettling = 2;  // periods before the walk is taken to repeat
  const std::int64_t size = pass.size(), period = pass.period();
  Use previous{}, use = pass.at(0);
  std::int64_t i = 0;
  const auto steps = [&](std::int64_t count) {
    for (const std::int64_t end = i + count; i < end; ++i) {
      const bool has_next = i + 1 < size;
      const Use next = has_next ? pass.at(i + 1) : Use{};
      visitor.step(i > 0 ? &previous : nullptr, use, has_next ? &next : nullptr);
      previous = use;
      use = next;
    }
  };
  if (pass.periods() > kSettling + 2) {
    steps(pass.before() + kSettling * period);
    visitor.mark();
    steps(period);
    const std::int64_t skipped = pass.periods() - kSettling - 2;
    visitor.repeat(skipped);
    i += skipped * period;
    previous = pass.at(i - 1);
    use = pass.at(i);
  }
  steps(size - i);
}

}  // namespace planner::closed_form
