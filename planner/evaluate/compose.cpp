// The classes' own times and the schedule's passes, as the step of the whole pipeline.
#include <algorithm>
#include <span>

#include "core/check.hpp"
#include "planner/evaluate/schedule_algebra.hpp"
#include "planner/evaluate/step_time.hpp"
#include "planner/lowering/lower.hpp"
#include "planner/strategy/schedules.hpp"

namespace planner {

// How long the ranks' passes and waits take together, and which class ends a step last.
struct Composition {
  std::size_t critical = 0;
  std::int64_t bubble = 0, messages = 0;  // of the critical class
};

// Stages in their order: of each the class with the longest slot. Every stage has one.
static std::vector<const ClassTime*> slots_of(const program::Program& program,
                                              const std::vector<ClassTime>& classes) {
  std::vector<const ClassTime*> stages(static_cast<std::size_t>(program.mesh.pipeline), nullptr);
  for (std::size_t i = 0; i < classes.size(); ++i) {
    const ClassTime*& slot = stages[static_cast<std::size_t>(program.classes[i].stage)];
    if (slot == nullptr || classes[i].period > slot->period) slot = &classes[i];
  }
  return stages;
}

// The spans of m micro-batches. Where they are more than a few rounds of the pipeline, so many are
// played and the others take as long as the last round's each.
static std::vector<PassSpan> spans_of(const Strategy& shape, std::span<const PassTimes> chunks,
                                      std::span<const std::int64_t> links) {
  constexpr std::int64_t kRounds = 3;
  const std::int64_t p = shape.pipeline, m = shape.grad_accum;
  const auto play = [&](std::int64_t micro_batches) {
    std::vector<program::RankSchedule> ranks;
    for (int r = 0; r < static_cast<int>(p); ++r)
      ranks.push_back(schedule_of(shape, r, micro_batches));
    return played_spans(ranks, chunks, links);
  };
  const bool flush = flushes(shape.schedule);
  if (m <= kRounds * p && flush) return play(m);
  std::vector<PassSpan> spans = play(kRounds * p);
  const std::vector<PassSpan> before = play((kRounds - 1) * p);
  for (std::size_t r = 0; r < spans.size() && !flush; ++r)
    spans[r] = {0, (spans[r].end - before[r].end) * m / p};
  if (!flush) return spans;
  const std::int64_t more = m - kRounds * p;
  for (std::size_t r = 0; r < spans.size(); ++r) {
    const std::int64_t round = spans[r].end - before[r].end;
    spans[r].end += round / p * more + round % p * more / p;
  }
  return spans;
}

// Without flush, where the ends of the pipeline sum tied gradients: the last rank's next pass waits
// until the first rank has done its last one, whose gradients come by way of all.
static std::int64_t joined_wait(std::span<const PassTimes> ranks,
                                std::span<const std::int64_t> links) {
  std::int64_t way = 0;
  for (std::size_t r = 0; r + 1 < ranks.size(); ++r)
    way += ranks[r].input_gradient + ranks[r].weight_gradient + links[r];
  return way;
}

// Schedules whose ranks work at once: their passes played, and what follows a rank's last pass
// (gradients to reduce, the update) until its next step.
static Composition pipelined(const program::Program& program,
                             const std::vector<ClassTime>& classes, const Strategy& shape) {
  std::vector<PassTimes> chunks;
  std::vector<std::int64_t> links;
  for (const ClassTime* stage : slots_of(program, classes)) {
    chunks.insert(chunks.end(), stage->chunks.begin(), stage->chunks.end());
    links.push_back(stage->next);
  }
  std::vector<PassSpan> spans = spans_of(shape, chunks, links);
  // Tied gradients are summed after the last pass of both ends.
  const bool flush = flushes(shape.schedule);
  const std::int64_t joined =
      !flush && program.accumulation.tied_apart ? joined_wait(chunks, links) : 0;
  if (program.takes_norm())
    join_all(spans);
  else if (flush && program.accumulation.tied_apart &&
      program.mesh.group_size(program::Group::data) > 1)
    spans.front().end = spans.back().end = std::max(spans.front().end, spans.back().end);
  Composition c;
  std::int64_t longest = -1, idle = 0;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    const auto [begin, end] = spans[static_cast<std::size_t>(program.classes[i].stage)];
    // A rank's own work is never shorter than its passes, which are played without what the host
    // and the streams beside add to a whole round.
    const std::int64_t waits =
        joined + std::max<std::int64_t>(end - begin - shape.grad_accum * classes[i].period, 0);
    if (classes[i].total + waits <= longest) continue;
    longest = classes[i].total + waits;
    idle = waits;
    c.critical = i;
  }
  // Of the waiting, what the algebra says of messages; the rest is bubble.
  const PassTimes own = classes[c.critical].passes();
  c.messages =
      std::min(idle, message_waits(shape, own, messages_over(links, shape.virtual_stages)));
  c.bubble = idle - c.messages;
  return c;
}

static Composition composition(const program::Program& program,
                               const std::vector<ClassTime>& classes, Schedule schedule) {
  Composition c;
  c.critical = static_cast<std::size_t>(
      std::ranges::max_element(classes, {}, &ClassTime::total) - classes.begin());
  Strategy shape;
  shape.schedule = schedule;
  shape.pipeline = program.mesh.pipeline;
  shape.virtual_stages = program.classes[c.critical].chunks();
  const std::int64_t m = shape.grad_accum = program.classes[c.critical].schedule.micro_batches;
  if (program.cut) {
    for (const ClassTime& k : classes) c.messages = std::max(c.messages, k.sent);
  } else if (shape.pipeline > 1 && schedule_def(schedule).takes_turns) {
    // One stage after the other, every message exposed.
    for (const ClassTime* stage : slots_of(program, classes)) c.bubble += m * stage->period;
    c.bubble -= m * classes[c.critical].period;
    for (const ClassTime& k : classes) c.messages = std::max(c.messages, k.message);
    c.messages *= 2 * m * (shape.pipeline - 1);
  } else if (shape.pipeline > 1) {
    c = pipelined(program, classes, shape);
  }
  return c;
}

Time compose(const program::Program& program, const std::vector<ClassTime>& classes,
             Schedule schedule) {
  PLANNER_CHECK(classes.size() == program.classes.size() && !classes.empty());
  const Composition whole = composition(program, classes, schedule);
  const ClassTime& c = classes[whole.critical];
  const auto seconds = [](std::int64_t ps) { return core::to_seconds(core::Picoseconds(ps)); };
  Time time;
  time.compute = seconds(c.compute);
  time.exposed_communication = seconds(c.total - c.compute - c.optimizer + whole.messages);
  time.bubble = seconds(whole.bubble);
  time.optimizer = seconds(c.optimizer);
  time.step = time.compute + time.exposed_communication + time.bubble + time.optimizer;
  time.communication = seconds(c.communication);
  time.launch_bound = c.launch_bound;
  return time;
}

}  // namespace planner
