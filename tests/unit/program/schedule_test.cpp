// Orders of passes: counts of the facts table, hand-worked orders, and what every order must hold.
#include <algorithm>
#include <map>
#include <string>

#include "core/random.hpp"
#include "sim/program/footprint.hpp"
#include "tests/catch.hpp"

using namespace program;

namespace {

RankSchedule interleaved(int p, int r, int v, std::int64_t m) {
  const std::int64_t warm_up = std::min<std::int64_t>(2 * (p - r - 1) + (v - 1) * p, m * v);
  return {.micro_batches = m, .warm_up = warm_up, .order = Order::interleaved, .chunks = v,
          .ranks = p, .rank = r};
}
RankSchedule split(int p, int r, std::int64_t m, int times) {
  return {.micro_batches = m, .warm_up = std::min<std::int64_t>(times * (p - r - 1), m),
          .split = true, .lag = times * r, .ranks = p, .rank = r};
}
RankSchedule v_shape(int p, int r, std::int64_t m) {
  return {.micro_batches = m, .order = Order::v_shape, .split = true, .chunks = 2, .ranks = p,
          .rank = r};
}

RankSchedule pairs(int p, int r, std::int64_t m) {
  RankSchedule s = v_shape(p, r, m);
  s.pairs = true;
  return s;
}

RankSchedule without_flush(int p, int r, std::int64_t m) {
  return {.micro_batches = m, .warm_up = p - r - 1, .ranks = p, .rank = r, .flushes = false};
}

// "F0 F1 B0 W0", of chunk 1 "F0'".
std::string text(const RankSchedule& s, StepOf which = {}) {
  std::string all;
  for (Passes passes(s, which); !passes.done(); passes.advance()) {
    const Pass pass = passes.pass();
    if (!all.empty()) all += ' ';
    all += "FBBW"[static_cast<int>(pass.kind)];
    all += std::to_string(pass.micro_batch);
    all.append(static_cast<std::size_t>(pass.chunk), '\'');
  }
  return all;
}

struct Held {
  std::int64_t in_flight = 0, slots = 0;
};
// Walks all passes: each once, in ascending order, after the pass that it needs.
Held walk(const RankSchedule& s) {
  std::map<std::pair<PassKind, int>, std::int64_t> next;
  Held held;
  std::int64_t now = 0, count = 0;
  const PassKind back = s.split ? PassKind::input_gradient : PassKind::backward;
  const PassKind last = s.split ? PassKind::weight_gradient : back;
  for (Passes passes(s); !passes.done(); passes.advance(), ++count) {
    const Pass p = passes.pass();
    REQUIRE(p.micro_batch == (next[{p.kind, p.chunk}]++));
    if (p.kind == back) REQUIRE(next[{PassKind::forward, p.chunk}] > p.micro_batch);
    if (p.kind == PassKind::weight_gradient) REQUIRE(next[{back, p.chunk}] > p.micro_batch);
    now += p.kind == PassKind::forward ? 1 : p.kind == back ? -1 : 0;
    held.in_flight = std::max(held.in_flight, now);
    held.slots = std::max(held.slots, next[{PassKind::forward, p.chunk}] -
                                          next[{last, p.chunk}] + (p.kind == last ? 1 : 0));
  }
  REQUIRE(count == s.micro_batches * s.chunks * (s.split ? 3 : 2));
  return held;
}

}  // namespace

TEST_CASE("passes come in hand-worked orders") {
  CHECK(text({.micro_batches = 3, .warm_up = 1}) == "F0 F1 B0 F2 B1 B2");
  CHECK(text({.micro_batches = 2, .warm_up = 2}) == "F0 F1 B0 B1");
  // p = 2, v = 2, last rank: warm-up 2.
  CHECK(text(interleaved(2, 1, 2, 2)) == "F0 F1 F0' B0' F1' B1' B0 B1");
  CHECK(text(split(2, 0, 3, 1)) == "F0 F1 B0 W0 F2 B1 W1 B2 W2");
  CHECK(text(split(2, 1, 3, 1)) == "F0 B0 F1 B1 W0 F2 B2 W1 W2");
  CHECK(text(v_shape(2, 1, 3)) ==
        "F0 F0' F1 F1' B0' W0' F2 B0 W0 F2' B1' W1' B1 B2' B2 W1 W2' W2");
}

TEST_CASE("dualpipe_v takes DeepSeek's eight steps, by hand") {
  // p = 2, 4 micro-batches; | between the steps that a rank has.
  CHECK(text(pairs(2, 0, 4)) ==
        "F0 F1 "                          // 1: 2 (p - r - 1) forward passes
        "F2 F0' "                         // 2: r + 1 of both chunks
        "B0' W0' F1' "                    // 3: p - r - 1
        "F3 B1' W1' F2' B0 W0 "           // 4: m - 2p + r + 1 pairs of pairs
        "B2' W2' F3' B1 W1 "              // 5: p - r - 1
        "B3' W3' B2 "                     // 6: r + 1, the second half without W
        "W2 B3 "                          // 7: p - r - 1
        "W3");                            // 8: r + 1
  CHECK(text(pairs(2, 1, 4)) ==
        "F0 F0' F1 F1' "                  // 2
        "F2 B0' W0' F2' B0 W0 F3 B1' W1' F3' B1 W1 "  // 4
        "B2' W2' B2 W2 B3' B3 "           // 6
        "W3' W3");                        // 8
}

TEST_CASE("without flush a run fills, repeats and drains") {
  const RankSchedule first = without_flush(3, 0, 3), last = without_flush(3, 2, 3);
  CHECK(text(first, {0, 4}) == "F0 F1 F2 B0 F3 B1 F4 B2");
  CHECK(text(first, {1, 4}) == "F5 B3 F6 B4 F7 B5");
  CHECK(text(first, {3, 4}) == "F11 B9 B10 B11");
  CHECK(text(last, {1, 4}) == "F3 B3 F4 B4 F5 B5");
  CHECK(text(first) == text({.micro_batches = 3, .warm_up = 2}));  // a step alone is 1f1b
  // One micro-batch a step: forward passes are of steps to come.
  CHECK(text(without_flush(3, 0, 1), {0, 5}) == "F0 F1 F2 B0");
  CHECK(text(without_flush(3, 0, 1), {2, 5}) == "F4 B2");
  CHECK(text(without_flush(3, 0, 1), {3, 5}) == "B3");
  CHECK(without_flush(3, 0, 1).slots() == 3);
  CHECK(without_flush(3, 0, 1).whole_run() == 5);
  CHECK(without_flush(3, 1, 3).whole_run() == 3);
}

TEST_CASE("without flush periods of a step can be left out") {
  for (const int p : {2, 3, 5})
    for (int r = 0; r < p; ++r)
      for (std::int64_t step = 0; step < 3; ++step) {
        const RankSchedule s = without_flush(p, r, 12);
        std::int64_t left_out = 0, count = 0;
        for (Passes passes(s, {step, 3}); !passes.done();) {
          if (const std::int64_t n = passes.ordinary_periods(); n > 0) {
            left_out += n * passes.period_passes();
            passes.skip(n);
          } else {
            passes.advance();
            ++count;
          }
        }
        std::int64_t all = 0;
        for (Passes passes(s, {step, 3}); !passes.done(); passes.advance()) ++all;
        CHECK(left_out > 0);
        CHECK(count + left_out == all);
      }
}

TEST_CASE("passes in flight are those of the published table") {
  // interleaved, p = 4, v = 2, rank 0: 2 x 3 + 4 + 1 = 11 chunks of 8, 5.5 stages' worth.
  CHECK(interleaved(4, 0, 2, 16).in_flight() == 11);
  CHECK(interleaved(4, 3, 2, 16).in_flight() == 5);
  CHECK(RankSchedule{.micro_batches = 16, .warm_up = 3}.in_flight() == 4);  // 1f1b, rank 0: p - r
  CHECK(RankSchedule{.micro_batches = 16, .warm_up = 16}.in_flight() == 16);
  CHECK(split(4, 0, 16, 1).in_flight() == 4);
  CHECK(split(4, 3, 16, 1).slots() == 4);   // as many as 1f1b's rank 0 on every rank
  CHECK(split(4, 0, 16, 2).in_flight() == 7);  // 2p - 1
  CHECK(v_shape(4, 2, 16).in_flight() == 8);  // 2p half stages: 1f1b's p stages
  CHECK(pairs(4, 2, 16).in_flight() == 9);    // 2p + 1 half stages, as DeepSeek's table says
}

TEST_CASE("every order takes each pass once, and holds what it says") {
  for (int p = 2; p <= 6; ++p)
    for (int r = 0; r < p; ++r)
      for (std::int64_t m = 1; m <= 14; ++m) {
        CAPTURE(p, r, m);
        for (int times : {1, 2}) {
          const RankSchedule s = split(p, r, m, times);
          const Held held = walk(s);
          CHECK(held.in_flight == s.in_flight());
          CHECK(held.slots == s.slots());
        }
        const Held held = walk(v_shape(p, r, m));
        CHECK(held.slots <= v_shape(p, r, m).slots());
        const Held paired = walk(pairs(p, r, m));
        CHECK(paired.slots <= pairs(p, r, m).slots());
        if (m >= 2 * p) CHECK(paired.in_flight == pairs(p, r, m).in_flight());
        if (m % p != 0) continue;
        for (int v : {2, 3}) {
          const RankSchedule s = interleaved(p, r, v, m);
          const Held many = walk(s);
          CHECK(many.in_flight == s.in_flight());
          CHECK(many.slots <= s.slots());
        }
      }
}

TEST_CASE("rounds that are said to be alike differ by their micro-batch alone") {
  for (int p = 2; p <= 4; ++p)
    for (int r = 0; r < p; ++r)
      for (const RankSchedule& s :
           {interleaved(p, r, 3, 4 * p), interleaved(p, r, 2, p), split(p, r, 9, 2),
            RankSchedule{.micro_batches = 9, .warm_up = r}}) {
        CAPTURE(p, r);
        Passes passes(s);
        std::int64_t longest = 0;
        while (!passes.done()) {
          const std::int64_t rounds = passes.alike_rounds(), count = passes.round_passes();
          longest = std::max(longest, rounds);
          Passes skipped = passes;
          if (rounds > 0) skipped.skip_rounds(rounds);
          std::vector<Pass> first;
          for (std::int64_t i = 0; i < std::max<std::int64_t>(rounds * count, 1); ++i) {
            const Pass pass = passes.pass();
            if (rounds > 0) {
              CHECK(pass.micro_batch > 0);
              CHECK(pass.micro_batch + 1 < s.micro_batches);
            }
            if (i < count) first.push_back(pass);
            Pass expected = first[static_cast<std::size_t>(i % count)];
            expected.micro_batch += i / count;
            CHECK(pass == expected);
            passes.advance();
          }
          if (rounds == 0) continue;
          REQUIRE(skipped.done() == passes.done());
          if (!passes.done()) CHECK(skipped.pass() == passes.pass());
        }
        if (s.micro_batches > 3) CHECK(longest >= 2);
      }
}

TEST_CASE("memory over a schedule equals that of its passes joined one by one") {
  const core::Random random(7, 0);
  std::uint64_t drawn = 0;
  const auto up_to = [&](std::uint64_t most) {
    return static_cast<std::int64_t>(random.below(drawn++, most + 1));
  };
  const auto any = [&](std::int64_t net) {
    return LiveFootprint{net, std::max<std::int64_t>(net, 0) + up_to(50)};
  };
  for (int p = 2; p <= 5; ++p)
    for (int r = 0; r < p; ++r)
      for (const RankSchedule& s :
           {interleaved(p, r, 2, p), interleaved(p, r, 3, 2 * p), interleaved(p, r, 4, 9 * p),
            split(p, r, 12, 1), split(p, r, 12, 2), v_shape(p, r, 12), pairs(p, r, 12)}) {
        RoutineFootprints<LiveFootprint> f;
        f.begin = any(up_to(5));
        f.end = any(-up_to(5));
        for (int c = 0; c < s.chunks; ++c) {
          const std::int64_t kept = 1 + up_to(20), sent = up_to(3);
          auto& chunk = f.chunks.emplace_back();
          chunk.first_forward = any(kept + sent);
          chunk.forward = any(kept);
          chunk.first_backward = any(sent - kept);
          chunk.backward = any(p == 4 ? 1 - kept : -kept);  // or what a period does to the level
          chunk.last_backward = any(-kept);
          chunk.weight_gradient = chunk.first_weight_gradient = any(0);
          chunk.last_weight_gradient = any(-1);
        }
        LiveFootprint walked = f.begin;
        for (Passes passes(s); !passes.done(); passes.advance())
          walked = then(walked, f.of(passes.pass(), s.micro_batches));
        walked = then(walked, f.end);
        CAPTURE(p, r, s.chunks, s.micro_batches);
        CHECK(over_schedule(f, s).net == walked.net);
        CHECK(over_schedule(f, s).peak == walked.peak);
      }
}

TEST_CASE("leaving periods out comes to the same passes") {
  for (const RankSchedule& s : {interleaved(3, 1, 2, 30), split(3, 1, 30, 2), v_shape(3, 1, 30),
                            pairs(3, 1, 30), pairs(6, 2, 30),
                            RankSchedule{.micro_batches = 30, .warm_up = 2}}) {
    Passes a(s), b(s);
    while (!a.done()) {
      const std::int64_t periods = a.ordinary_periods();
      REQUIRE_FALSE(b.done());
      REQUIRE(a.pass() == b.pass());
      if (periods == 0) {
        a.advance();
        b.advance();
        continue;
      }
      const std::int64_t passes = periods * a.period_passes();
      a.skip(periods);
      for (std::int64_t i = 0; i < passes; ++i) b.advance();
    }
    CHECK(b.done());
  }
}
