// The bubble algebra on equal stages with free messages: exact, to the picosecond.
#include "sim/engine/sweep.hpp"
#include "tests/catch.hpp"
#include "tests/unit/engine/pipelines.hpp"

using namespace engine_test;
using engine::StepTerms;
using planner::Schedule;

namespace {

constexpr PassBytes kBytes{.forward = 7000, .input_gradient = 9000, .weight_gradient = 5000,
                           .update = 300};
constexpr std::int64_t kSlot = 21000;  // F + B + W

StepTerms terms(const program::Program& p) {
  return engine::critical_terms(engine::sweep(engine::Scene(p, unit_machine()), {.steps = 4}));
}

void adds_up(const StepTerms& t, std::int64_t micro_batches, int chunks) {
  CHECK(t.compute == micro_batches * chunks * kSlot);
  CHECK(t.optimizer == 300);
  CHECK(t.exposed_communication == 0);
  CHECK(t.period == t.compute + t.bubble + t.optimizer);
}

}  // namespace

TEST_CASE("gpipe and 1f1b idle for (p-1)/(m+p-1) of a step") {
  const auto schedule = GENERATE(Schedule::gpipe, Schedule::one_f_one_b);
  for (const int p : {2, 3, 4, 8}) {
    for (const std::int64_t m : {1, 2, 3, 4, 7, 8, 16, 33}) {
      INFO(p << " stages, " << m << " micro-batches");
      const StepTerms t = terms(pipeline(schedule, p, m, 1, kBytes));
      adds_up(t, m, 1);
      CHECK(t.bubble == (p - 1) * kSlot);
      CHECK((m + p - 1) * t.bubble == (p - 1) * (t.period - t.optimizer));
    }
  }
}

TEST_CASE("naive stages take turns, micro-batch by micro-batch") {
  for (const int p : {2, 3, 8}) {
    const StepTerms t = terms(pipeline(Schedule::naive, p, 5, 1, kBytes));
    adds_up(t, 5, 1);
    CHECK(t.bubble == 5 * (p - 1) * kSlot);
  }
}

TEST_CASE("interleaved stages idle for (p-1)/(vm+p-1) of a step") {
  for (const int p : {2, 3, 4}) {
    for (const int v : {2, 3, 4}) {
      for (const std::int64_t rounds : {1, 2, 5}) {
        const std::int64_t m = rounds * p;
        INFO(p << " stages, " << m << " micro-batches, " << v << " chunks");
        const StepTerms t = terms(pipeline(Schedule::interleaved, p, m, v, kBytes));
        adds_up(t, m, v);
        CHECK(t.bubble == (p - 1) * kSlot);  // of v m slots
        CHECK((v * m + p - 1) * t.bubble == (p - 1) * (t.period - t.optimizer));
      }
    }
  }
}

TEST_CASE("zb_h1 idles for (p-1)(F+B-W), zb_h2 not at all as a period") {
  for (const int p : {2, 3, 4, 8}) {
    for (const std::int64_t m : {8, 16, 24}) {
      INFO(p << " stages, " << m << " micro-batches");
      const StepTerms h1 = terms(pipeline(Schedule::zb_h1, p, m, 1, kBytes));
      adds_up(h1, m, 1);
      CHECK(h1.bubble == (p - 1) * (7000 + 9000 - 5000));
      if (m < 2 * p - 1) continue;
      PassBytes even = kBytes;         // W fills what F and B leave: F + B <= 2 W
      even.forward = even.input_gradient = even.weight_gradient = 7000;
      const StepTerms h2 = terms(pipeline(Schedule::zb_h2, p, m, 1, even));
      CHECK(h2.bubble == 0);
      CHECK(h2.period == m * kSlot + 300);
    }
  }
}

TEST_CASE("pipelines without flush do not idle at all as a period") {
  for (const int p : {2, 3, 4, 8}) {
    for (const std::int64_t m : {1, 8, 16}) {
      INFO(p << " stages, " << m << " micro-batches");
      const auto schedule = m == 1 ? Schedule::pipedream : Schedule::pipedream_2bw;
      const StepTerms t = terms(pipeline(schedule, p, m, 1, kBytes));
      adds_up(t, m, 1);
      CHECK(t.bubble == 0);
    }
  }
}

TEST_CASE("the fill and the drain of a pipeline pay for messages that take time") {
  PassBytes bytes = kBytes;
  bytes.message = 400;
  for (const int p : {2, 4}) {
    const std::int64_t m = 6;
    const program::Program program = pipeline(Schedule::gpipe, p, m, 1, bytes);
    const engine::Outcome o =
        engine::sweep(engine::Scene(program, unit_machine()), {.critical_path = true});
    // Forward passes leave a message apart from one another, and so do backward passes.
    CHECK(o.makespan() == (m + p - 1) * kSlot + 2 * (p - 1) * 400 + 300);
    std::int64_t sum = 0;
    for (const std::int64_t part : o.critical_path) sum += part;
    CHECK(sum == o.makespan());
    CHECK(o.critical_path[2 + static_cast<std::size_t>(program::Traffic::pipeline)] ==
          2 * (p - 1) * 400);
  }
}
