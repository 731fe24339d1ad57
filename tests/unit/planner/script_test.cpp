// The stage script as such: that its passes compute what they need, whatever is computed again;
// and that an outline of it has the same uses.
#include <set>

#include "planner/evaluate/closed_form/outline.hpp"
#include "planner/stage/script.hpp"
#include "tests/catch.hpp"

using namespace planner;
using stage::Piece;

namespace {

struct Case {
  Checkpoint checkpoint{};
  std::int64_t every = 0, layers = 0, before = 0;
  bool one_in_k = false, first = true, last = true, trains = true;
};

stage::ChunkScript script_of(const Case& c) {
  stage::Policy policy;
  policy.one_in_k = c.one_in_k;
  Strategy s;
  s.checkpoint = c.checkpoint;
  s.checkpoint_every = c.every;
  s.pipeline = c.first && c.last ? 1 : 2;
  stage::ChunkScript script;
  describe({.policy = policy, .strategy = s, .both_ends = c.first && c.last,
            .embeddings_train = c.trains},
           {c.first, c.last, c.layers, c.before}, script);
  return script;
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const bool first : {true, false})
    for (const bool last : {true, false})
      for (const bool trains : {true, false})
        for (std::int64_t layers = 0; layers <= 7; ++layers) {
          all.push_back({Checkpoint::none, 0, layers, 0, false, first, last, trains});
          all.push_back({Checkpoint::memory_poor, 0, layers, 0, false, first, last, trains});
          for (std::int64_t k = 1; k <= 4; ++k)
            all.push_back({Checkpoint::first_k, k, layers, 0, false, first, last, trains});
          for (std::int64_t k = 1; k <= 4; ++k)
            for (std::int64_t before = 0; before < k; ++before)
              for (const bool one_in_k : {true, false})
                all.push_back({Checkpoint::every_k, k, layers, before, one_in_k, first, last,
                               trains});
        }
  return all;
}

}  // namespace

// Plays a script: which layers' inputs and inner tensors are there. A layer's forward pass needs
// its input; its backward pass needs its inner tensors, and frees them with its input.
TEST_CASE("each layer is differentiated once, from tensors that are there") {
  for (const Case& c : cases()) {
    INFO(int(c.checkpoint) << " every " << c.every << ", " << c.layers << " layers behind "
                           << c.before << ", one in k " << c.one_in_k);
    const stage::ChunkScript script = script_of(c);
    std::set<std::int64_t> inputs{0}, inner;
    std::vector<std::int64_t> forward, backward;
    const auto play = [&](const stage::Use& use, std::int64_t l) {
      switch (use.piece) {
        case Piece::layer_keep:
        case Piece::layer_hold:
        case Piece::layer_drop:
        case Piece::recompute:
          REQUIRE(inputs.contains(l));
          forward.push_back(l);
          if (use.piece == Piece::layer_drop) inputs.erase(l);
          if (use.piece == Piece::layer_keep || use.piece == Piece::recompute) inner.insert(l);
          if (use.piece != Piece::recompute) inputs.insert(l + 1);
          return;
        case Piece::backward:
        case Piece::backward_first:
          REQUIRE(inner.erase(l) == 1);
          inputs.erase(l + 1);
          backward.push_back(l);
          CHECK((use.piece == Piece::backward_first) == (l == 0 && c.first && !c.trains));
          return;
        case Piece::epilogue: CHECK(backward.empty()); return;
        default: return;
      }
    };
    script.forward.each(play);
    REQUIRE(forward.size() == static_cast<std::size_t>(c.layers));
    for (std::size_t l = 0; l < forward.size(); ++l)
      CHECK(forward[l] == static_cast<std::int64_t>(l));
    script.backward.each(play);
    REQUIRE(backward.size() == static_cast<std::size_t>(c.layers));
    for (std::size_t i = 0; i < backward.size(); ++i)
      CHECK(backward[i] == c.layers - 1 - static_cast<std::int64_t>(i));
    CHECK(inner.empty());
    CHECK(script.backward.has(Piece::epilogue) == c.last);
    CHECK(script.backward.has(Piece::prologue_backward) == c.first);
    // What is computed again: all but, without a pipeline, the last layer of memory_poor; or one.
    const auto again = static_cast<std::int64_t>(forward.size()) - c.layers;
    if (c.checkpoint == Checkpoint::none) CHECK(again == 0);
    if (c.checkpoint == Checkpoint::every_k && !c.one_in_k) CHECK(again == c.layers);
    if (c.checkpoint == Checkpoint::first_k) CHECK(again == std::min(c.every, c.layers));
    if (c.checkpoint == Checkpoint::every_k && c.one_in_k)
      CHECK(again == (c.layers + c.before % c.every) / c.every);
  }
}

TEST_CASE("an outline has the uses of its script, in order, whatever it counts together") {
  for (const Case& c : cases())
    for (int bits = 0; bits < 16; ++bits) {
      const closed_form::Manner manner{.gathers_ahead = (bits & 3) == 3,
                                       .reduces = (bits & 4) != 0,
                                       .stages_buckets = (bits & 8) != 0,
                                       .copies = (bits & 1) != 0};
      const stage::ChunkScript script = script_of(c);
      for (const stage::Pass* pass : {&script.forward, &script.backward}) {
        std::vector<Piece> expected, met;
        pass->each([&](const stage::Use& use, std::int64_t) { expected.push_back(use.piece); });
        closed_form::Outline outline;
        outline_of(*pass, 0xf, manner, outline);
        for (const auto& block : outline.blocks)
          for (std::int64_t b = 0; b < block.times; ++b)
            for (std::size_t i = block.first; i < block.last; ++i)
              met.insert(met.end(), static_cast<std::size_t>(outline.leaves[i].times),
                         static_cast<Piece>(outline.leaves[i].slot));
        REQUIRE(met == expected);
        std::int64_t uses = 0;
        for (const auto& [piece, times] : outline.pieces) uses += times;
        CHECK(uses == static_cast<std::int64_t>(expected.size()));
        // Copies are asked for once before each run of uses that share them.
        if (!manner.copies || !manner.gathers_ahead || pass == &script.backward) continue;
        for (std::size_t i = 1; i < outline.leaves.size(); ++i)
          CHECK(outline.leaves[i].asks == 0);
      }
    }
}

TEST_CASE("a pass through layers of several kinds has the same uses, each of its layer's kind") {
  using Kinds = closed_form::KindRows::Kinds;
  const auto row = [](std::int64_t layers, int pattern) {
    Kinds kinds;
    for (std::int64_t l = 0; l < layers; ++l) {
      const std::int64_t kind = pattern == 0 ? l % 2 : pattern == 1 ? l < 2 : l % 3;
      kinds.push_back(static_cast<std::uint8_t>(kind));
    }
    return kinds;
  };
  using Met = std::tuple<Piece, std::int64_t, std::uint8_t>;
  std::size_t most = 0;
  for (const Case& c : cases())
    for (int pattern = 0; pattern < 3; ++pattern) {
      const Kinds kinds = row(c.layers, pattern);
      const stage::ChunkScript script = script_of(c);
      for (const stage::Pass* pass : {&script.forward, &script.backward}) {
        std::vector<Met> expected, met;
        pass->each([&](const stage::Use& use, std::int64_t l) {
          const auto at = static_cast<std::size_t>(std::max<std::int64_t>(l, 0));
          expected.emplace_back(use.piece, l, l < 0 ? std::uint8_t{0} : kinds.at(at));
        });
        stage::Pass apart;
        closed_form::by_kind(*pass, kinds, apart);
        apart.each([&](const stage::Use& use, std::int64_t l) {
          met.emplace_back(use.piece, l, use.kind);
        });
        REQUIRE(met == expected);
        if (c.checkpoint == Checkpoint::none && pattern == 0)
          most = std::max(most, apart.groups.size());
      }
    }
  CHECK(most <= 6);  // ends, pairs of layers, what is left of them, the first layer apart
}
