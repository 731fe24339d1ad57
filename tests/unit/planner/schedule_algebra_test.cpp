// The algebra of schedules against their passes, played.
#include "planner/evaluate/schedule_algebra.hpp"
#include "planner/lowering/lower.hpp"
#include "planner/strategy/schedules.hpp"
#include "tests/catch.hpp"

using namespace planner;

namespace {

Idle played(const Strategy& s, const PassTimes& chunk) {
  std::vector<program::RankSchedule> ranks;
  for (int r = 0; r < static_cast<int>(s.pipeline); ++r)
    ranks.push_back(schedule_of(s, r, s.grad_accum));
  return played_idle(ranks, chunk);
}

Strategy shape(Schedule schedule, std::int64_t p, std::int64_t v, std::int64_t m) {
  Strategy s;
  s.schedule = schedule;
  s.pipeline = p;
  s.virtual_stages = v;
  s.grad_accum = m;
  return s;
}

}  // namespace

TEST_CASE("four equal stages idle as worked by hand") {
  const PassTimes t{2, 3, 1};
  CHECK(bubble(shape(Schedule::one_f_one_b, 4, 1, 8), t, true) == 3 * (2 + 3 + 1));
  CHECK(bubble(shape(Schedule::interleaved, 4, 2, 8), t, true) == 9);  // half of it
  CHECK(bubble(shape(Schedule::zb_h1, 4, 1, 8), t, true) == 3 * (2 + 3 - 1));
  CHECK(bubble(shape(Schedule::zb_h2, 4, 1, 8), {1, 1, 1}, false) == 0);
  CHECK(bubble(shape(Schedule::zb_h2, 4, 1, 8), {1, 1, 1}, true) == 3);  // the skew of the ranks
  CHECK(bubble(shape(Schedule::zb_v, 4, 2, 8), {2, 2, 2}, false) == 0);
}

TEST_CASE("dualpipe_v idles as worked by hand, and no more than published") {
  // p = 2, m = 4, F = B = W = 1, messages free. Rank 0: F0 F1 F2 until 3, when rank 1 has F0';
  // F0' B0' W0' F1' F3 B1' W1' F2' until 11, B0 of rank 1 since 10; B0 W0 B2' W2' F3' B1 W1 B3' W3'
  // B2 W2 until 22. Rank 1 ends B3 at 23: B3 W3 until 25, of which 24 are passes.
  const Idle idle = played(shape(Schedule::dualpipe_v, 2, 2, 4), {1, 1, 1});
  CHECK(idle.makespan == 1);
  CHECK(idle.period == 1);
  // [dualpipe]: (p - 1)(F&B + B - 3W) of half stages; B has its W. There both messages of a pair
  // leave when both passes have ended; here a forward pass ends, and sends, before the backward.
  for (const std::int64_t p : {2, 4, 5})
    for (const std::int64_t m : {2 * p, 2 * p + 1, 3 * p})
      for (const PassTimes& t : {PassTimes{1, 1, 1}, {2, 2, 1}, {3, 4, 2}}) {
        CAPTURE(p, m, t.forward, t.input_gradient, t.weight_gradient);
        const std::int64_t b = t.input_gradient + t.weight_gradient;
        const Strategy s = shape(Schedule::dualpipe_v, p, 2, m);
        CHECK(played(s, t).makespan <= (p - 1) * (t.forward + b + b - 3 * t.weight_gradient));
        CHECK(played(s, t).makespan >= p - 1);
      }
}

TEST_CASE("messages travel beside the passes, as worked by hand") {
  // Four ranks, links of 1, 5 and 1 between them and 5 back to the first.
  const std::vector<std::int64_t> links{1, 5, 1, 5};
  const Messages line = messages_over(links, 1), ring = messages_over(links, 2);
  CHECK(line.all == 1 + 5 + 1);
  CHECK(line.slowest == 5);
  CHECK(line.busiest == 5 + 1);
  CHECK(ring.all == 2 * (1 + 5 + 1) + 5);
  CHECK(messages_over(std::vector<std::int64_t>{3, 4}, 2).busiest == (2 * 3 + 4) / 2);
  const PassTimes t{20, 30, 10};
  // Fill and drain alone, where passes are long: 1f1b's rank 0 has no slot to spare for them.
  CHECK(message_waits(shape(Schedule::gpipe, 4, 1, 8), t, line) == 2 * 7);
  CHECK(message_waits(shape(Schedule::zb_h2, 4, 1, 8), t, line) == 2 * 7);
  CHECK(message_waits(shape(Schedule::interleaved, 4, 2, 8), t, ring) == 2 * 19);
  CHECK(message_waits(shape(Schedule::one_f_one_b, 4, 1, 8), t, line) ==
        2 * 7 + (8 - 4) * (2 * 7 / 4));
  // Slow links: a slot lasts as long as a rank sends.
  const Messages slow = messages_over(std::vector<std::int64_t>{50, 50, 50, 0}, 1);
  CHECK(message_waits(shape(Schedule::gpipe, 4, 1, 3), t, slow) ==
        2 * 150 + 2 * (50 - 20 + 50 - 40));
  CHECK(message_waits(shape(Schedule::zb_h2, 4, 1, 9), t, slow) == 2 * 150 + 2 * (100 - 60));
}

TEST_CASE("messages hold up the V where its passes follow one another without a pause") {
  // Two ranks, F = B = W = 10 a chunk, a message of 1. F0 of rank 0, a message, F0 F1 B1 of rank 1,
  // a message back, B1 of rank 0: played, the fill and the drain pay one message each way.
  const Strategy s = shape(Schedule::zb_v, 2, 2, 8);
  const PassTimes t{20, 20, 20};
  CHECK(message_waits(s, t, messages_over(std::vector<std::int64_t>{0, 0}, 2)) == 0);
  std::int64_t before = 0;
  for (const std::int64_t link : {1, 2, 5, 10}) {
    const std::vector<std::int64_t> links{link, link};
    const std::int64_t waits = message_waits(s, t, messages_over(links, 2));
    CHECK(waits > before);             // no slack: each hop that a period waits for counts
    CHECK(waits <= 8 * 4 * link);      // at most every message of every micro-batch
    before = waits;
  }
}

TEST_CASE("the formulas equal the played passes on equal stages") {
  for (const ScheduleDef& def : kSchedules) {
    if (!has_formula(def.schedule) || def.schedule == Schedule::none || !def.flushes) continue;
    for (const PassTimes t : {PassTimes{1, 1, 1}, {2, 3, 2}, {2, 2, 3}, {3, 5, 1}})
      for (std::int64_t p = 2; p <= 6; ++p)
        for (std::int64_t m = 1; m <= 12; ++m)
          for (const std::int64_t v : {1, 2, 3}) {
            if ((v > 1) != (def.chunks == ChunksOfRank::several)) continue;
            if (!def.micro_batches.take(m, p)) continue;
            CAPTURE(def.name, p, m, v, t.forward, t.input_gradient, t.weight_gradient);
            const Strategy s = shape(def.schedule, p, v, m);
            const PassTimes rank{v * t.forward, v * t.input_gradient, v * t.weight_gradient};
            CHECK(played(s, t).makespan == bubble(s, rank, true));
            if (def.schedule == Schedule::zb_h2) CHECK(played(s, t).period == bubble(s, t, false));
          }
  }
}

TEST_CASE("a step of fewer micro-batches than its row says idles more, or cannot be played") {
  const PassTimes t{2, 2, 2};
  for (const ScheduleDef& def : kSchedules) {
    if (def.micro_batches.any() || def.micro_batches.single || !def.flushes) continue;
    const std::int64_t p = 4, v = def.chunks == ChunksOfRank::one ? 1 : 2;
    const std::int64_t fewest = def.micro_batches.whole_groups ? p : def.micro_batches.fewest(p);
    CAPTURE(def.name);
    CHECK(def.micro_batches.take(fewest, p));
    CHECK_FALSE(def.micro_batches.take(fewest - 1, p));
    CHECK(def.micro_batches.take(2 * fewest, p));
    const std::int64_t idle = bubble(shape(def.schedule, p, v, fewest), t, true);
    CHECK(bubble(shape(def.schedule, p, v, 2 * fewest), t, true) == idle);
  }
}

TEST_CASE("passes recorded once play with any times") {
  for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b, Schedule::interleaved,
                                  Schedule::zb_h1, Schedule::zb_v, Schedule::dualpipe_v}) {
    const std::int64_t v = schedule == Schedule::interleaved || in_v(schedule) ? 2 : 1;
    const Strategy s = shape(schedule, 4, v, 8);
    std::vector<program::RankSchedule> ranks;
    for (int r = 0; r < 4; ++r) ranks.push_back(schedule_of(s, r, 8));
    const RecordedPasses recorded(ranks);
    for (std::int64_t seed = 1; seed < 20; ++seed) {
      const auto some = [&, n = std::int64_t{0}]() mutable { return ++n * seed * 7919 % 97; };
      auto next = some;
      std::vector<PassTimes> chunks(static_cast<std::size_t>(4 * v));
      for (PassTimes& t : chunks) t = {next(), next(), next()};
      const std::vector<std::int64_t> links{next(), next(), next(), next()};
      const auto spans = recorded.spans(chunks, links);
      const auto fresh = played_spans(ranks, chunks, links);
      for (std::size_t r = 0; r < spans.size(); ++r) {
        CHECK(spans[r].begin == fresh[r].begin);
        CHECK(spans[r].end == fresh[r].end);
        // A rank does all of its passes, one after the other.
        std::int64_t busy = 0;
        for (std::size_t c = 0; c < static_cast<std::size_t>(v); ++c)
          busy += 8 * chunks[r * static_cast<std::size_t>(v) + c].sum();
        CHECK(spans[r].end - spans[r].begin >= busy);
      }
    }
  }
}
