#pragma once
// Pipeline schedules as data: a row says in which order a rank takes its passes, of what a step may
// be made, where a rank's chunks lie in the model, and what others call it. The search, the rules,
// the lowering and what is emitted read the rows; none of them names the schedules. What a schedule
// makes a step wait for is in evaluate/schedule_algebra.cpp, as a formula where there is one: else
// its passes are played. A new schedule is a row here, an entry in reports/glossary.json, a test.
// Immutable.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "sim/program/schedule.hpp"

namespace planner {

enum class Schedule : std::uint8_t {
  none, naive, gpipe, one_f_one_b, interleaved, zb_h1, zb_h2, zb_v, dualpipe_v, pipedream,
  pipedream_2bw
};

// A rank of a pipeline, and what it has to do in a step.
struct PipelinePlace {
  std::int64_t rank = 0, ranks = 1, chunks = 1, micro_batches = 1;
  std::int64_t behind() const { return ranks - rank - 1; }
};

// How many parts of the model a rank holds: one; two, down the ranks and up again; or as many as
// virtual_stages says, round robin.
enum class ChunksOfRank : std::uint8_t { one, two_in_v, several };

// How many micro-batches p ranks take in a step.
struct MicroBatches {
  bool whole_groups = false;           // a multiple of p
  std::int64_t of_rank = 0, less = 0;  // at least of_rank p - less
  bool single = false;                 // exactly one
  constexpr std::int64_t fewest(std::int64_t ranks) const {
    return std::max<std::int64_t>(1, of_rank * ranks - less);
  }
  constexpr bool any() const { return !whole_groups && !single && of_rank == 0; }
  constexpr bool take(std::int64_t micro_batches, std::int64_t ranks) const {
    if (whole_groups && micro_batches % ranks != 0) return false;
    return micro_batches >= fewest(ranks) && !(single && micro_batches != 1);
  }
};

using OfPlace = std::int64_t (*)(const PipelinePlace&);

struct ScheduleDef {
  Schedule schedule{};
  std::string_view name{};
  std::array<std::string_view, 2> other_names{};  // what papers and frameworks call it
  std::string_view source{};           // the paper
  program::Order order = program::Order::straight;
  bool pairs = false;                  // of a V: see program::RankSchedule
  // Forward passes before the first backward pass; weight passes behind their input gradients, in
  // micro-batches; updates that the weights of a pass are behind. See program::RankSchedule.
  OfPlace warm_up = nullptr, lag = nullptr, delay = nullptr;  // null: 0
  ChunksOfRank chunks = ChunksOfRank::one;
  MicroBatches micro_batches{};
  bool splits_backward = false;        // weight gradients are passes of their own
  bool flushes = true;                 // false: step follows step, by weights of earlier updates
  bool forwards_first = false;         // all forward passes, then all backward ones
  bool takes_turns = false;            // one rank at a time: nothing is received ahead
  bool infers = false;                 // of forward passes alone, too
  // By every search over pipelines; others by one of their own (search/variants.cpp,
  // search/stale_space.cpp), or where they are pinned.
  bool searched = false;
  bool usual = false;                  // what every framework with pipelines has
  int level = 2;                       // how far from the first thing that people run
  std::string_view torch{};            // torch.distributed.pipelining's class; empty: it has none
  bool megatron = false;               // whether Megatron-LM runs it
};

// In the order of the enumerators.
inline constexpr std::array kSchedules{
    ScheduleDef{.schedule = Schedule::none, .name = "none", .infers = true, .usual = true,
                .level = 0, .megatron = true},
    ScheduleDef{.schedule = Schedule::naive, .name = "naive", .takes_turns = true, .infers = true},
    ScheduleDef{.schedule = Schedule::gpipe, .name = "gpipe", .source = "gpipe",
                .warm_up = [](const PipelinePlace& p) { return p.micro_batches; },
                .forwards_first = true, .infers = true, .searched = true, .usual = true,
                .level = 1, .torch = "GPipe"},
    ScheduleDef{.schedule = Schedule::one_f_one_b, .name = "1f1b", .source = "pipedream",
                .warm_up = [](const PipelinePlace& p) { return p.behind(); },
                .infers = true, .searched = true, .usual = true, .level = 0, .torch = "1F1B",
                .megatron = true},
    ScheduleDef{.schedule = Schedule::interleaved, .name = "interleaved",
                .other_names = {"interleaved_1f1b", "interleaved1f1b"}, .source = "megatron2021",
                .order = program::Order::interleaved,
                .warm_up = [](const PipelinePlace& p) {
                  return 2 * p.behind() + (p.chunks - 1) * p.ranks;
                },
                .chunks = ChunksOfRank::several, .micro_batches = {.whole_groups = true},
                .searched = true, .level = 1, .torch = "Interleaved1F1B", .megatron = true},
    ScheduleDef{.schedule = Schedule::zb_h1, .name = "zb_h1", .other_names = {"zbh1", "zb1p"},
                .source = "zero-bubble",
                .warm_up = [](const PipelinePlace& p) { return p.behind(); },
                .lag = [](const PipelinePlace& p) { return p.rank; },
                .micro_batches = {.of_rank = 1}, .splits_backward = true, .searched = true},
    ScheduleDef{.schedule = Schedule::zb_h2, .name = "zb_h2", .other_names = {"zbh2", "zb2p"},
                .source = "zero-bubble",
                .warm_up = [](const PipelinePlace& p) { return 2 * p.behind(); },
                .lag = [](const PipelinePlace& p) { return 2 * p.rank; },
                .micro_batches = {.of_rank = 2, .less = 1}, .splits_backward = true,
                .searched = true},
    ScheduleDef{.schedule = Schedule::zb_v, .name = "zb_v", .other_names = {"zbv", "zbvzerobubble"},
                .source = "zb-v", .order = program::Order::v_shape,
                .chunks = ChunksOfRank::two_in_v, .micro_batches = {.of_rank = 2, .less = 1},
                .splits_backward = true, .torch = "ZBVZeroBubble"},
    ScheduleDef{.schedule = Schedule::dualpipe_v, .name = "dualpipe_v",
                .other_names = {"dualpipev"}, .source = "dualpipe",
                .order = program::Order::v_shape, .pairs = true,
                .chunks = ChunksOfRank::two_in_v, .micro_batches = {.of_rank = 2},
                .splits_backward = true},
    ScheduleDef{.schedule = Schedule::pipedream, .name = "pipedream", .source = "pipedream",
                .warm_up = [](const PipelinePlace& p) { return p.behind(); },
                .delay = [](const PipelinePlace& p) { return p.behind(); },
                .micro_batches = {.single = true}, .flushes = false},
    ScheduleDef{.schedule = Schedule::pipedream_2bw, .name = "pipedream_2bw",
                .source = "pipedream-2bw",
                .warm_up = [](const PipelinePlace& p) { return p.behind(); },
                .delay = [](const PipelinePlace&) { return std::int64_t{1}; },
                .micro_batches = {.of_rank = 1}, .flushes = false},
};

constexpr const ScheduleDef& schedule_def(Schedule s) {
  return kSchedules[static_cast<std::size_t>(s)];
}
static_assert([] {
  for (std::size_t i = 0; i < kSchedules.size(); ++i)
    if (static_cast<std::size_t>(kSchedules[i].schedule) != i) return false;
  return true;
}(), "rows in the order of the enumerators");

constexpr bool splits_backward(Schedule s) { return schedule_def(s).splits_backward; }
// Without flush steps follow one another without a pause, by weights of earlier updates.
constexpr bool flushes(Schedule s) { return schedule_def(s).flushes; }
constexpr bool interleaves(Schedule s) {
  return schedule_def(s).order == program::Order::interleaved;
}
// A rank holds chunks from both sides of the model; activations of the second one go to the rank
// before.
constexpr bool in_v(Schedule s) { return schedule_def(s).chunks == ChunksOfRank::two_in_v; }
constexpr bool runs_upwards(Schedule s, std::int64_t chunk) { return in_v(s) && chunk == 1; }

inline constexpr auto kScheduleNames = [] {
  std::array<std::string_view, kSchedules.size()> names;
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = kSchedules[i].name;
  return names;
}();

}  // namespace planner
