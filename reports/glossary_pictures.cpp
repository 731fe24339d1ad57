#include "reports/glossary_pictures.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "core/check.hpp"
#include "core/parse_units.hpp"
#include "models/zoo.hpp"
#include "planner/evaluate/memory.hpp"
#include "planner/lowering/lower.hpp"
#include "planner/strategy/schedules.hpp"
#include "reports/text.hpp"
#include "sim/program/replay.hpp"

namespace reports {
namespace {

using planner::Schedule;
using planner::Strategy;
using program::Pass;
using program::PassKind;

constexpr int kRanks = 4;
constexpr int kFewRanks = 3;           // of schedules that take many micro-batches

// A place of the model that all ranks' chunks make up in order: 0 is where samples come in.
struct Places {
  int ranks = 1, chunks = 1;
  bool v_shape = false;
  int of(int rank, int chunk) const {
    return v_shape && chunk == 1 ? 2 * ranks - 1 - rank : chunk * ranks + rank;
  }
  int last() const { return ranks * chunks - 1; }
};

using Done = std::map<std::tuple<PassKind, int, std::int64_t>, std::int64_t>;  // by place: its end

// When what the pass reads is there; empty: not yet known. Gradients of a place come from the next.
std::optional<std::int64_t> ready(const Pass& pass, int place, const Places& places, bool split,
                                  const Done& done) {
  const auto end_of = [&](PassKind kind, int at) -> std::optional<std::int64_t> {
    const auto found = done.find({kind, at, pass.micro_batch});
    return found == done.end() ? std::nullopt : std::optional(found->second);
  };
  const PassKind back = split ? PassKind::input_gradient : PassKind::backward;
  if (pass.kind == PassKind::forward)
    return place == 0 ? std::optional<std::int64_t>(0) : end_of(PassKind::forward, place - 1);
  if (pass.kind == PassKind::weight_gradient) return end_of(PassKind::input_gradient, place);
  return place == places.last() ? end_of(PassKind::forward, place) : end_of(back, place + 1);
}

std::vector<Pass> passes_of(const program::RankSchedule& schedule, std::int64_t steps) {
  std::vector<Pass> all;
  for (std::int64_t step = 0; step < steps; ++step)
    for (program::Passes passes(schedule, {step, steps}); !passes.done(); passes.advance())
      all.push_back(passes.pass());
  return all;
}

char letter(PassKind kind) {
  if (kind == PassKind::forward) return 'F';
  return kind == PassKind::weight_gradient ? 'W' : 'B';
}

// Two characters a unit: "F1", "B1==" for a backward pass of two units, dots where a rank idles.
std::string row_of(const std::vector<PlayedPass>& passes, std::int64_t end) {
  std::string row;
  for (const PlayedPass& p : passes) {
    row.resize(static_cast<std::size_t>(2 * p.start), '.');
    // Of a rank's second chunk in small letters.
    const char mark = letter(p.pass.kind);
    row += p.pass.chunk == 0 ? mark : static_cast<char>(mark - 'A' + 'a');
    row += static_cast<char>('1' + p.pass.micro_batch % 9);
    row.resize(static_cast<std::size_t>(2 * (p.start + p.units)), '=');
  }
  row.resize(static_cast<std::size_t>(2 * end), '.');
  return row;
}

std::string schedule_picture(Schedule schedule) {
  const planner::ScheduleDef& def = planner::schedule_def(schedule);
  const bool many = def.micro_batches.fewest(kRanks) > kRanks;
  Strategy s;
  s.pipeline = schedule == Schedule::none ? 1 : many ? kFewRanks : kRanks;
  s.schedule = schedule;
  s.virtual_stages = def.chunks == planner::ChunksOfRank::one ? 1 : 2;
  const std::int64_t micro_batches =
      def.micro_batches.single ? 1
      : def.takes_turns        ? 2
                               : std::max<std::int64_t>(many ? 0 : kRanks,
                                                        def.micro_batches.fewest(s.pipeline));
  const std::int64_t steps = def.flushes ? 1 : def.micro_batches.single ? 6 : 2;
  const auto played = played_passes(s, micro_batches, steps);
  std::int64_t end = 0;
  for (const auto& row : played) end = std::max(end, row.back().start + row.back().units);
  std::string text = fmt::format("  {} rank{}, {} micro-batch{}{}; time goes to the right\n",
                                 played.size(), played.size() == 1 ? "" : "s",
                                 micro_batches, micro_batches == 1 ? "" : "es",
                                 steps > 1 ? fmt::format(" a step, {} steps", steps) : "");
  for (std::size_t rank = 0; rank < played.size(); ++rank)
    text += fmt::format("  rank {} {}\n", rank, row_of(played[rank], end));
  text += "  F forward, B backward of a micro-batch, W its weight gradients where apart,\n  . idle";
  if (s.virtual_stages > 1) text += "; small letters: the rank's second chunk";
  return text;
}

// Bytes that one of four data-parallel ranks keeps, from the lowered program of a small model.
std::string sharding_table() {
  const models::ModelSpec model = models::find_model("gpt2-124m").value();
  planner::Job job;
  job.seq_len = model.default_seq_len;
  job.global_batch = kRanks;
  Table table({{"kept by each of 4 ranks", Align::left}, {"weights"}, {"gradients"},
               {"optimizer"}});
  for (int i = 0; i < 4; ++i) {
    Strategy s;
    s.data = kRanks;
    s.sharding = static_cast<planner::Sharding>(i);
    s = planner::resolve(model, job, s);
    const auto graph = models::build_graph(model, planner::graph_options(job, s));
    PLANNER_CHECK(graph.ok());
    const program::Program program = planner::lower(*graph, job, s, {});
    const program::TermBytes kept = program::persistent_terms(program.classes.front());
    std::vector<std::string> cells{fmt::format("sharding={}", planner::name(s.sharding))};
    for (int term = 0; term < 3; ++term)
      cells.push_back(core::to_text(kept[static_cast<std::size_t>(term)]));
    table.add(std::move(cells));
  }
  return table.text() + "  gpt2-124m, recipe mixed, adamw";
}

}  // namespace

std::vector<std::vector<PlayedPass>> played_passes(const Strategy& strategy,
                                                   std::int64_t micro_batches,
                                                   std::int64_t steps) {
  const int ranks = static_cast<int>(strategy.pipeline);
  std::vector<std::vector<Pass>> orders;
  Places places{ranks, 1, planner::in_v(strategy.schedule)};
  bool split = false;
  for (int rank = 0; rank < ranks; ++rank) {
    const program::RankSchedule s = planner::schedule_of(strategy, rank, micro_batches);
    orders.push_back(passes_of(s, steps));
    places.chunks = s.chunks;
    split = s.split;
  }
  std::vector<std::vector<PlayedPass>> played(static_cast<std::size_t>(ranks));
  std::vector<std::int64_t> free_at(static_cast<std::size_t>(ranks), 0);
  Done done;
  for (bool moved = true; moved;) {
    moved = false;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      while (played[r].size() < orders[r].size()) {
        const Pass& pass = orders[r][played[r].size()];
        const int place = places.of(rank, pass.chunk);
        const auto from = ready(pass, place, places, split, done);
        if (!from) break;
        const std::int64_t units = pass.kind == PassKind::backward ? 2 : 1;
        const std::int64_t start = std::max(free_at[r], *from);
        free_at[r] = start + units;
        done[{pass.kind, place, pass.micro_batch}] = free_at[r];
        played[r].push_back({pass, start, units});
        moved = true;
      }
    }
  }
  for (std::size_t r = 0; r < played.size(); ++r)
    PLANNER_CHECK(played[r].size() == orders[r].size(), "a schedule that waits for itself");
  return played;
}

std::string picture_of(std::string_view kind, std::string_view word) {
  if (kind == "schedule")
    if (const auto schedule = planner::schedule_from_name(word)) return schedule_picture(*schedule);
  if (kind == "sharding" || (kind == "strategy key" && word == "sharding"))
    return sharding_table();
  return "";
}

}  // namespace reports
