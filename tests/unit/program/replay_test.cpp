#include "sim/program/replay.hpp"

#include <map>
#include <random>
#include <tuple>

#include "sim/program/bound.hpp"
#include "sim/program/cursor.hpp"
#include "tests/catch.hpp"
#include "tests/unit/program/program_builder.hpp"

using namespace program_test;
using core::Bytes;

namespace {

std::int64_t term(const TermBytes& t, Term which) {
  return t[static_cast<std::size_t>(which)].value();
}

// Two layers. Forward keeps 10 bytes a layer (20 in layer 1), with a temporary of 4; backward has a
// gradient of 7 that outlives the layer's own 10.
RankClass two_layers(std::int64_t micro_batches, std::int64_t warm_up) {
  Builder b;
  const int slots = static_cast<int>(b.schedule(micro_batches, warm_up).k.schedule.in_flight());
  b.buffer("weights", Term::weights, {100}, 1, 1, true);
  const auto saved = b.buffer("saved", Term::activations, {10, 20}, 2, slots);
  const auto temporary = b.buffer("temporary", Term::communication, {4});
  const auto gradient = b.buffer("gradient", Term::activations, {7});
  const auto forward = b.block("forward");
  b.alloc(layered(saved)).alloc(whole(temporary)).free(whole(temporary));
  const auto backward = b.block("backward");
  b.alloc(whole(gradient)).free(layered(saved)).free(whole(gradient));
  b.k.forward = {b.call(forward, 0), b.call(forward, 1)};
  b.k.backward = b.k.last_backward = {b.call(backward, 1), b.call(backward, 0)};
  return b.k;
}

// The plain walk: every action of every call, in issue order.
struct Plain {
  std::array<std::int64_t, kTerms> terms{}, now{}, peaks{};
  std::int64_t live = 0;
  Call where{kNone, 0, 0};
};

void step(Plain& p, std::int64_t bytes, Term term, const Call& call) {
  const auto t = static_cast<std::size_t>(term);
  p.now[t] += bytes;
  p.peaks[t] = std::max(p.peaks[t], p.now[t]);
  std::int64_t live = 0;
  for (const auto b : p.now) live += b;
  if (live <= p.live) return;
  p.live = live;
  p.terms = p.now;
  p.where = call;
}

Plain walk(const RankClass& k) {
  Plain p;
  for (const Buffer& b : k.buffers) {
    if (!b.persistent) continue;
    for (int l = 0; l < b.extent; ++l)
      step(p, b.instance_bytes(l).value() * b.slots, b.term, Call{kNone, 0, 0});
  }
  for_each_call(k, [&](const Call& call) {
    for (auto i = k.blocks[call.block].first; i < k.blocks[call.block].last; ++i) {
      const Action& a = k.actions[i];
      if (call.micro_batch == 0 && (a.flags & kSkipFirstMicroBatch) != 0) continue;
      if (a.kind != ActionKind::alloc && a.kind != ActionKind::free) continue;
      const View& v = k.views[a.first_arg];
      const Buffer& b = k.buffers[v.buffer];
      const auto bytes = b.instance_bytes(layer_index(v, call)).value();
      step(p, a.kind == ActionKind::alloc ? bytes : -bytes, b.term, call);
    }
  });
  return p;
}

// Forward blocks keep random buffers per layer, backward blocks free them in random order; blocks
// have random temporaries, some skipped in micro-batch 0. Leaks nothing.
RankClass random_class(std::mt19937& random, std::int64_t micro_batches, std::int64_t warm_up) {
  Builder b;
  const int slots = static_cast<int>(b.schedule(micro_batches, warm_up).k.schedule.in_flight());
  const int layers = static_cast<int>(random() % 3) + 1;
  const auto size = [&] { return static_cast<std::int64_t>(random() % 5000); };
  const auto sizes = [&] {
    std::vector<std::int64_t> all{size()};
    if (random() % 2 == 0) for (int l = 1; l < layers; ++l) all.push_back(size());
    return all;
  };
  const auto any_term = [&] { return static_cast<Term>(random() % kTerms); };
  b.buffer("p", Term::weights, {size()}, 1, 1, true);
  std::vector<std::uint16_t> saved;
  for (unsigned i = 0; i <= random() % 3; ++i)
    saved.push_back(b.buffer("s", any_term(), sizes(), layers, slots));
  const auto temporary = b.buffer("t", any_term(), {size()});
  const auto maybe = b.buffer("m", any_term(), {size()});
  const auto with_temporaries = [&](bool skip) {
    b.alloc(whole(temporary)).alloc(whole(maybe));
    if (skip) b.flag(kSkipFirstMicroBatch);
    b.free(whole(maybe));
    if (skip) b.flag(kSkipFirstMicroBatch);
    b.free(whole(temporary));
  };
  const auto forward = b.block("forward");
  for (const auto s : saved) b.alloc(layered(s));
  with_temporaries(random() % 2 == 0);
  const auto backward = b.block("backward");
  if (random() % 2 == 0) with_temporaries(random() % 2 == 0);
  std::shuffle(saved.begin(), saved.end(), random);
  for (const auto s : saved) b.free(layered(s));
  const auto last = b.block("last");
  with_temporaries(false);
  for (int l = 0; l < layers; ++l) {
    b.k.forward.push_back(b.call(forward, l));
    b.k.backward.push_back(b.call(backward, layers - 1 - l));
  }
  b.k.last_backward = b.k.backward;
  b.k.last_backward.push_back(b.call(last));
  b.k.begin = b.k.end = {b.call(last)};
  return b.k;
}

}  // namespace

TEST_CASE("a step's live peak is hand-worked: two layers, two micro-batches in flight") {
  const Replay r = replay(two_layers(3, 1));
  // F0 and F1 keep 2 x 30; the second forward's layer 1 adds the temporary: 100 + 60 + 4 = 164;
  // backward of layer 1 adds 7 before it frees: 100 + 60 + 7 = 167, the peak.
  CHECK(r.live == Bytes(167));
  CHECK(term(r.terms, Term::weights) == 100);
  CHECK(term(r.terms, Term::activations) == 67);
  CHECK(term(r.terms, Term::communication) == 0);
  CHECK(term(r.peaks, Term::communication) == 4);
  CHECK(r.where.block == 1);
  CHECK(r.where.layer == 1);
  CHECK(r.where.micro_batch == 0);
  // Arena: each of the instances lies in 256 bytes of its own; 1 + 4 saved + 1 temporary.
  CHECK(r.reserved == Bytes(6 * 256));
}

TEST_CASE("all forwards first keep every micro-batch, one in flight keeps one") {
  CHECK(replay(two_layers(5, 5)).live == Bytes(100 + 5 * 30 + 7));
  CHECK(replay(two_layers(5, 0)).live == Bytes(100 + 30 + 7));
  CHECK(replay(two_layers(1, 0)).live == Bytes(100 + 30 + 7));
}

TEST_CASE("a class without allocations needs its persistent bytes") {
  Builder b;
  b.buffer("w", Term::weights, {3, 5}, 2, 4, true, core::DType::f32);
  const Replay r = replay(b.k);
  CHECK(r.live == Bytes((3 + 5) * 4 * 4));
  CHECK(r.where.block == kNone);
}

TEST_CASE("the routine algebra equals the walk over every action, and the bound never undercuts") {
  const unsigned seed = 20;
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (int i = 0; i < 400; ++i) {
    const auto m = static_cast<std::int64_t>(random() % 9 + 1);
    const auto warm_up = static_cast<std::int64_t>(random() % 11);
    CAPTURE(i, m, warm_up);
    const RankClass k = random_class(random, m, warm_up);
    const Plain p = walk(k);
    const Replay r = replay(k, {.want_reserved = false});
    REQUIRE(r.live.value() == p.live);
    REQUIRE(std::tuple(r.where.block, r.where.layer, r.where.micro_batch) ==
            std::tuple(p.where.block, p.where.layer, p.where.micro_batch));
    for (std::size_t t = 0; t < kTerms; ++t) {
      REQUIRE(r.terms[t].value() == p.terms[t]);
      REQUIRE(r.peaks[t].value() == p.peaks[t]);
    }
    REQUIRE(sum(r.terms) == r.live);
    REQUIRE(closed_form_live(k) >= r.live);
    REQUIRE(closed_form_live(k) / r.live <= 1.02);
  }
}

TEST_CASE("skipping steady micro-batches changes neither model's reserved bytes") {
  const unsigned seed = 31;
  CAPTURE(seed);
  std::mt19937 random(seed);
  std::int64_t walked = 0, all = 0;
  for (int i = 0; i < 120; ++i) {
    const auto warm_up = static_cast<std::int64_t>(random() % 6);
    const auto m = static_cast<std::int64_t>(random() % 60 + 1);
    const RankClass k = random_class(random, m, warm_up);
    for (const auto kind : {AllocatorKind::arena, AllocatorKind::caching}) {
      const Replay skipped = replay(k, {.allocator = kind});
      const Replay full = replay(k, {.allocator = kind, .skip_periods = false});
      CAPTURE(i, m, warm_up);
      REQUIRE(skipped.reserved == full.reserved);
      REQUIRE(skipped.reserved >= Bytes(0));
      walked += skipped.rounds_walked;
      all += full.rounds_walked;
    }
  }
  CHECK(walked * 2 < all);
}

TEST_CASE("a million micro-batches cost as much as a few") {
  const RankClass k = two_layers(1'000'000, 3);
  const Replay r = replay(k);
  CHECK(r.live == Bytes(100 + 4 * 30 + 7));
  CHECK(r.rounds_walked < 64);
}
