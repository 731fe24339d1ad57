#include "planner/evaluate/variation.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <mutex>
#include <tuple>

#include <fmt/format.h>

#include "core/check.hpp"
#include "core/parallel.hpp"
#include "core/random.hpp"
#include "planner/evaluate/swept_time.hpp"
#include "sim/engine/sweep.hpp"

namespace planner {
namespace {

using engine::Straggler;
using Conditions = std::vector<Straggler>;

constexpr std::uint64_t kSlowStream = 0x736c6f77;  // of the seed; one for each kind and rank

struct Before {
  bool operator()(const Conditions* a, const Conditions* b) const {
    return std::ranges::lexicographical_compare(
        *a, *b, [](const Straggler& x, const Straggler& y) {
          return std::tie(x.rank, x.slowdown, x.link_share) <
                 std::tie(y.rank, y.slowdown, y.link_share);
        });
  }
};

// Adds what this kind does to a rank over all steps.
void draw(const RandomSlow& kind, std::uint64_t stream, std::uint64_t seed, int rank,
          std::vector<Conditions>& of_step) {
  const core::Random random(seed, stream);
  const auto steps = static_cast<std::int64_t>(of_step.size());
  std::int64_t until = 0;              // before it the rank is slow
  // The steps before the first one may have begun what still lasts.
  for (std::int64_t i = 1 - kind.steps; i < steps; ++i) {
    const auto index = static_cast<std::uint64_t>(i + kind.steps - 1);
    if (random.uniform(index) < kind.probability) until = std::max(until, i + kind.steps);
    if (i < 0 || i >= until) continue;
    Conditions& here = of_step[static_cast<std::size_t>(i)];
    if (here.empty() || here.back().rank != rank) here.push_back({rank});
    here.back().slowdown *= kind.slowdown;
    here.back().link_share = std::min(here.back().link_share, kind.link_share);
  }
}

core::Seconds swept(const program::Program& program, const cost::Machine& machine,
                    const engine::SceneOptions& options) {
  const engine::Scene scene(program, machine, options);
  return seconds(engine::critical_terms(engine::sweep(scene)).period);
}

// Tells how many of `all` are done, from whichever thread.
class Told {
 public:
  Told(const std::function<void(std::string_view)>& tell, std::size_t all)
      : tell_(tell), all_(all) {}
  void one_more() {
    const std::size_t done = ++done_;
    if (!tell_) return;
    const std::lock_guard lock(mutex_);
    tell_(fmt::format("played {} of {} steps with slow ranks or links", done, all_));
  }

 private:
  const std::function<void(std::string_view)>& tell_;
  const std::size_t all_;
  std::atomic<std::size_t> done_{0};
  std::mutex mutex_;
};

}  // namespace

std::vector<std::vector<Straggler>> drawn_conditions(int ranks, const VariationOptions& o) {
  std::vector<Conditions> of_step(static_cast<std::size_t>(o.steps));
  for (int rank = 0; rank < ranks; ++rank) {
    for (const Straggler& s : o.fixed)
      if (s.rank == rank)
        for (Conditions& here : of_step) here.push_back(s);
    for (std::size_t k = 0; k < o.random.size(); ++k)
      draw(o.random[k],
           kSlowStream + ((static_cast<std::uint64_t>(k) + 1) << 40) +
               static_cast<std::uint64_t>(rank),
           o.seed, rank, of_step);
  }
  return of_step;
}

Variation varied_steps(const program::Program& program, const cost::Machine& machine,
                       const VariationOptions& o) {
  PLANNER_CHECK(o.steps > 0);
  const std::vector<Conditions> of_step = drawn_conditions(program.mesh.ranks(), o);
  std::map<const Conditions*, std::size_t, Before> known;
  std::vector<std::size_t> first, of(of_step.size());  // steps that are played; by step, which
  for (std::size_t i = 0; i < of_step.size(); ++i) {
    // With jitter no two steps are alike.
    const auto [at, fresh] = known.try_emplace(&of_step[i], first.size());
    if (!fresh && o.jitter == 0) {
      of[i] = at->second;
      continue;
    }
    of[i] = first.size();
    first.push_back(i);
  }
  std::vector<core::Seconds> played(first.size());
  Told told(o.progress, first.size());
  core::for_each_index(first.size(), o.threads, [&](std::size_t p) {
    engine::SceneOptions scene;
    scene.stragglers = of_step[first[p]];
    scene.jitter = o.jitter;
    scene.seed = o.seed + first[p];
    played[p] = swept(program, machine, scene);
    told.one_more();
  });
  Variation v;
  double sum = 0, slow = 0;
  for (std::size_t i = 0; i < of_step.size(); ++i) {
    v.steps.push_back(played[of[i]]);
    sum += v.steps.back().value();
    slow += static_cast<double>(of_step[i].size());
    v.slowed += of_step[i].empty() ? 0 : 1;
  }
  v.mean = core::Seconds(sum / static_cast<double>(of_step.size()));
  v.slow_ranks = slow / static_cast<double>(of_step.size());
  v.least = *std::ranges::min_element(v.steps);
  v.most = *std::ranges::max_element(v.steps);
  return v;
}

core::Seconds quantile(std::vector<core::Seconds> values, double q) {
  PLANNER_CHECK(!values.empty() && q > 0 && q <= 1);
  std::ranges::sort(values);
  const double count = static_cast<double>(values.size());
  // 0.95 x 200 is 190, whatever its last bit.
  const double rank = std::ceil(q * count - 1e-9);
  return values[static_cast<std::size_t>(std::clamp(rank, 1.0, count)) - 1];
}

core::Seconds step_with(const program::Program& program, const cost::Machine& machine,
                        const std::vector<Straggler>& stragglers) {
  engine::SceneOptions scene;
  scene.stragglers = stragglers;
  return swept(program, machine, scene);
}

core::Seconds worst_step_with_one(const program::Program& program, const cost::Machine& machine,
                                  double slowdown, double link_share, int threads) {
  const engine::Fold fold = engine::Scene(program, machine).fold();
  std::vector<core::Seconds> steps(fold.first.size());
  core::for_each_index(fold.first.size(), threads, [&](std::size_t f) {
    steps[f] = step_with(program, machine, {{fold.first[f], slowdown, link_share}});
  });
  return *std::ranges::max_element(steps);
}

double operations_of(const program::Program& program, const cost::Machine& machine,
                     VariationOptions o) {
  constexpr std::int64_t kLooked = 4;
  o.steps = kLooked;
  double most = 1;
  for (const Conditions& here : drawn_conditions(program.mesh.ranks(), o)) {
    engine::SceneOptions scene;
    scene.stragglers = here;
    scene.jitter = o.jitter;
    const engine::Scene drawn(program, machine, scene);
    most = std::max(most, drawn.operations() * drawn.steps_of(2));
  }
  return most;
}

}  // namespace planner
