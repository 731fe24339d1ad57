#include "sim/engine/sweep.hpp"

#include <algorithm>
#include <memory>
#include <type_traits>
#include <utility>

#include "core/check.hpp"
#include "core/parallel.hpp"
#include "sim/engine/blocks.hpp"
#include "sim/engine/sweep_block.hpp"

namespace engine {
namespace {

// The blocks of a scene, swept in rounds. Between rounds, what they report is brought together.
template <class S>
class SweepRounds {
 public:
  SweepRounds(const Scene& scene, const SweepOptions& options, const Blocks& blocks)
      : scene_(scene), options_(options), blocks_(blocks), known_(blocks),
        plays_(blocks.all().size()) {
    outcome_.steps = scene.steps_of(options.steps);
    outcome_.accounted = outcome_.steps - 1 - scene.draining_steps();
    outcome_.accounts.resize(scene.actors().size() * static_cast<std::size_t>(outcome_.steps));
  }

  Outcome run() {
    play(false);
    while (true) {
      const bool held = bring_together();
      play(!held);
      if (!held && std::ranges::none_of(plays_, [](const auto& p) { return p->moved(); })) break;
    }
    S end{};
    for (const auto& p : plays_) {
      PLANNER_CHECK(p->pending() == 0, "a deadlock in a program that was checked");
      outcome_.operations += p->operations();
      end.keep_later(p->path_end());
      if (options_.record != nullptr)
        options_.record->insert(options_.record->end(), p->record().begin(), p->record().end());
    }
    if constexpr (std::is_same_v<S, PathStamp>) outcome_.critical_path = end.spent;
    return std::move(outcome_);
  }

 private:
  void play(bool further) {
    const int threads = worth_.threads() ? options_.threads : 1;
    core::for_each_index(plays_.size(), threads, [&](std::size_t b) {
      if (!plays_[b])
        plays_[b] = std::make_unique<SweepBlock<S>>(scene_, options_, blocks_, blocks_.all()[b],
                                                    outcome_.accounts);
      plays_[b]->play(known_, further);
    });
    std::uint64_t operations = 0;
    for (const auto& p : plays_) operations += p->operations();
    worth_.add_round(operations);
  }

  // True where a meeting at a border was held.
  bool bring_together() {
    bool held = false;
    for (const auto& p : plays_)
      for (const auto& arrival : p->arrivals()) held = known_.add(arrival) || held;
    return held;
  }

  const Scene& scene_;
  const SweepOptions& options_;
  const Blocks& blocks_;
  Borders<S> known_;
  std::vector<std::unique_ptr<SweepBlock<S>>> plays_;
  Outcome outcome_;
  WorthThreads worth_;
};

}  // namespace

Outcome sweep(const Scene& scene, const SweepOptions& options) {
  PLANNER_CHECK(options.steps >= 1);
  const Blocks blocks = blocks_for(scene, scene.steps_of(options.steps), options.block_actors);
  if (options.critical_path) return SweepRounds<PathStamp>(scene, options, blocks).run();
  return SweepRounds<Stamp>(scene, options, blocks).run();
}

}  // namespace engine
