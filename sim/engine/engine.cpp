#include "sim/engine/engine.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "core/check.hpp"
#include "core/parallel.hpp"
#include "sim/engine/blocks.hpp"
#include "sim/engine/engine_block.hpp"

namespace engine {
namespace {

constexpr std::int64_t kFirstAhead = 8;  // compute operations issued and not finished

// The blocks of a scene, played in rounds. In a round each block plays on by itself, up to what
// others can still cause. Between rounds, what the blocks report is brought together.
class Rounds {
 public:
  Rounds(const Scene& scene, const EngineOptions& options, const Blocks& blocks,
         std::int64_t ahead)
      : scene_(scene), options_(options), blocks_(blocks), ahead_(ahead), known_(blocks),
        plays_(blocks.all().size()) {
    outcome_.steps = scene.steps_of(options.steps);
    outcome_.accounted = outcome_.steps - 1 - scene.draining_steps();
    outcome_.accounts.resize(scene.actors().size() * static_cast<std::size_t>(outcome_.steps));
  }

  // False: something could have started before it was issued.
  bool run() {
    for (std::int64_t floor = 0; floor < EngineBlock::kNever; floor = bring_together()) {
      const int threads = worth_.threads() ? options_.threads : 1;
      core::for_each_index(plays_.size(), threads, [&](std::size_t b) {
        if (!plays_[b])
          plays_[b] = std::make_unique<EngineBlock>(scene_, options_, blocks_, blocks_.all()[b],
                                                    outcome_.accounts, ahead_);
        plays_[b]->play(known_, floor);
      });
      if (late_ || std::ranges::any_of(plays_, [](const auto& p) { return p->late(); }))
        return false;
    }
    return !late_;
  }

  // REQUIRES: run() was true.
  Outcome outcome() {
    for (const auto& play : plays_) {
      PLANNER_CHECK(play->pending() == 0, "a deadlock in a program that was checked");
      outcome_.operations += play->operations();
    }
    if (options_.record != nullptr) merge_records();
    const Exchanges* exchanges = plays_.front()->exchanges();
    if (exchanges == nullptr) return std::move(outcome_);
    for (int rank = 0; rank < scene_.program().mesh.ranks(); ++rank) {
      outcome_.wire_sent.push_back(exchanges->wires().bytes_sent(rank));
      outcome_.wire_received.push_back(exchanges->wires().bytes_received(rank));
    }
    outcome_.carried = exchanges->wires().carried();
    outcome_.written = exchanges->log();
    outcome_.written_at = exchanges->written_at();
    return std::move(outcome_);
  }

 private:
  // Returns the time before which no block has an event: kNever where all is done.
  std::int64_t bring_together() {
    std::int64_t floor = EngineBlock::kNever;
    std::uint64_t operations = 0;
    for (const auto& play : plays_) {
      operations += play->operations();
      floor = std::min(floor, play->next_time());
      for (const EngineBorders::Arrival& a : play->arrivals()) {
        if (!known_.add(a)) continue;
        const Readiness& start = known_[a.border].start;
        late_ = late_ || start.time < start.told;
        floor = std::min(floor, start.time + blocks_.borders()[a.border].shortest);
      }
    }
    worth_.add_round(operations);
    return late_ ? EngineBlock::kNever : floor;
  }

  // In the order in which one block would have played all: always the first of what is next.
  void merge_records() {
    if (plays_.size() == 1 && options_.record->empty()) {
      *options_.record = std::move(plays_.front()->record());
      return;
    }
    struct Next {
      std::int64_t time = 0;
      std::uint32_t order = 0;
      std::size_t block = 0, index = 0;
    };
    const auto later = [](const Next& a, const Next& b) {
      return std::tie(a.time, a.order) > std::tie(b.time, b.order);
    };
    std::vector<Next> heap;
    const auto push = [&](std::size_t block, std::size_t index) {
      const std::vector<Played>& record = plays_[block]->record();
      if (index == record.size()) return;
      heap.push_back({record[index].finish, order_of(record[index]), block, index});
      std::ranges::push_heap(heap, later);
    };
    std::size_t recorded = options_.record->size();
    for (std::size_t b = 0; b < plays_.size(); ++b) {
      recorded += plays_[b]->record().size();
      push(b, 0);
    }
    options_.record->reserve(recorded);
    while (!heap.empty()) {
      std::ranges::pop_heap(heap, later);
      const Next next = heap.back();
      heap.pop_back();
      options_.record->push_back(plays_[next.block]->record()[next.index]);
      push(next.block, next.index + 1);
    }
  }

  std::uint32_t order_of(const Played& p) const {
    const Actor& actor = scene_.actors()[p.actor];
    return queue_order(actor, scene_.timetable(actor).operation(p.operation).stream);
  }

  const Scene& scene_;
  const EngineOptions& options_;
  const Blocks& blocks_;
  const std::int64_t ahead_;
  EngineBorders known_;
  std::vector<std::unique_ptr<EngineBlock>> plays_;
  Outcome outcome_;
  WorthThreads worth_;
  bool late_ = false;
};

}  // namespace

Outcome run(const Scene& scene, const EngineOptions& options) {
  PLANNER_CHECK(options.steps >= 1);
  const int steps = scene.steps_of(options.steps);
  const Blocks blocks =
      options.flows ? Blocks(scene) : blocks_for(scene, steps, options.block_actors);
  for (std::int64_t ahead = kFirstAhead;; ahead *= 16) {
    Rounds rounds(scene, options, blocks, ahead);
    if (rounds.run()) return rounds.outcome();
    PLANNER_CHECK(ahead < std::int64_t{1} << 56, "work starts before it is issued, however early");
  }
}

}  // namespace engine
