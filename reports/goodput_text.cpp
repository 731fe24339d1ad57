#include "reports/goodput_text.hpp"

#include <cmath>

#include <fmt/format.h>

#include "core/parse_units.hpp"

namespace reports {
namespace {

using core::to_text;
using engine::FailingParts;
using planner::Goodput;

constexpr double kFarOff = 0.005;      // shares of time below this are not told apart

std::string cadence_text(const Goodput& g, const planner::FailureOptions& o, TextStyle style) {
  const engine::FailureModel& m = g.model;
  std::string saves = fmt::format("a save takes {}", to_text(m.save));
  if (m.saving == engine::Saving::async)
    saves = fmt::format("steps stop for {} and the checkpoint counts {} later", to_text(m.save),
                        to_text(m.behind));
  if (m.saving == engine::Saving::memory) {
    const std::int64_t apart = engine::checkpoints_per_stored(m, g.interval);
    saves = fmt::format("steps stop for {}, another node has the copy {} later, {} goes to "
                        "storage",
                        to_text(m.save), to_text(m.behind),
                        apart == 1 ? "and each"
                                   : fmt::format("and one in {}", core::count_text(apart)));
  }
  return wrapped(fmt::format("A checkpoint every {} steps{}: the job fails every {}, {}, a restart "
                             "{}.",
                             core::count_text(g.interval), o.interval ? "" : " is best",
                             to_text(m.between()), saves, to_text(m.restart)),
                 2, 4, style);
}

std::string played_text(const Goodput& g, const planner::FailureOptions& o, std::uint64_t seed,
                        TextStyle style) {
  const engine::GoodputRun& r = g.played;
  std::string text = wrapped(
      fmt::format("In a simulation of {} (seed {}), {} of the time went into steps that were kept. "
                  "Failures: {}; steps kept: {}; steps repeated: {}.",
                  to_text(o.horizon), seed, percent_text(r.goodput), core::count_text(r.failures),
                  core::count_text(r.steps), core::count_text(r.lost_steps)),
      2, 4, style);
  text += wrapped(fmt::format("The rest of the time: saving {}, repeated steps {}, restarts {}, "
                              "waiting for nodes {}.",
                              percent_text(r.saving), percent_text(r.repeated),
                              percent_text(r.restarting), percent_text(r.waiting)),
                  2, 4, style);
  if (g.model.saving == engine::Saving::memory)
    text += wrapped(fmt::format("Failures after which both copies in memory were lost, and the "
                                "state came from storage: {}.",
                                core::count_text(r.memory_lost)),
                    2, 4, style);
  return text;
}

std::string kinds_text(const Goodput& g, const planner::FailureOptions& o, TextStyle style) {
  if (g.model.parts.size() == 1 && o.rates_of.empty()) return "";
  Table table({{"part", Align::left}, {"number"}, {"one fails every"}, {"all of them every"},
               {"nodes away"}, {"failures"}});
  for (std::size_t k = 0; k < g.model.parts.size(); ++k) {
    const FailingParts& p = g.model.parts[k];
    table.add({p.kind, core::count_text(static_cast<std::int64_t>(p.parts)), to_text(p.between),
               to_text(p.between / p.parts), std::to_string(p.nodes),
               core::count_text(g.played.of_kind[k])});
  }
  std::string text = table.text(style);
  if (!o.rates_of.empty())
    text += wrapped("Rates of " + o.rates_of + " (hw_profiles/failures).", 2, 4, style);
  return text;
}

std::string rules_text(const Goodput& g, TextStyle style) {
  Table table({{"interval", Align::left}, {"steps"}, {"time"}, {"first order"}, {"Daly"},
               {"extended"}, {"simulated"}});
  for (const planner::GoodputRule& r : g.rules)
    table.add({std::string(rule_words(r.name)), core::count_text(r.interval),
               to_text(g.model.step * static_cast<double>(r.interval)),
               percent_text(r.first_order), percent_text(r.daly), percent_text(r.expected),
               percent_text(r.played)});
  std::string text = table.text(style);
  const planner::GoodputRule& last = g.rules.back();
  if (std::abs(last.daly - last.expected) >= kFarOff)
    text += wrapped(fmt::format("Daly's formula assumes that steps wait for each save and that "
                                "failed nodes are replaced at once. Here that is not so, and the "
                                "formula says {} instead of {}.",
                                percent_text(last.daly), percent_text(last.expected)),
                    2, 4, style);
  if (g.wait.value() > 0)
    text += wrapped(fmt::format("A failure makes the job wait {} for nodes, on average.",
                                to_text(g.wait)),
                    2, 4, style);
  return text;
}

}  // namespace

std::string_view rule_words(std::string_view rule) {
  if (rule == "young") return "Young's rule";
  if (rule == "daly") return "Daly's rule";
  return rule == "best" ? "best" : "as asked";
}

std::string checkpoint_text(const planner::CheckpointTraffic& t, core::Seconds step,
                            TextStyle style) {
  const std::string target =
      t.to_nodes ? std::string("the host of another node")
                 : fmt::format("storage that takes {}", to_text(*t.storage));
  const bool slows = t.delay > step * kFarOff / 10;
  const std::string cost =
      slows ? fmt::format("makes {} longer", to_text(t.delay)) : std::string("does not slow");
  const std::string meanwhile =
      slows && t.step && to_text(*t.step) != to_text(step)
          ? fmt::format(" A step takes {} meanwhile, instead of {}.", to_text(*t.step),
                        to_text(step))
          : "";
  return '\n' + painted("A checkpoint over these links", Ink::heading, style) + '\n' +
         wrapped(fmt::format("{} go from the hosts to {}. That takes {} while no step runs, and {} "
                             "behind the steps, which it {}.{}",
                             to_text(t.bytes), target, to_text(t.alone), to_text(t.behind), cost,
                             meanwhile),
                 2, 2, style);
}

std::string goodput_text(const Goodput& g, const planner::FailureOptions& o, std::uint64_t seed,
                         TextStyle style) {
  std::string text =
      '\n' + painted(fmt::format("Goodput with failures: {}", percent_text(g.expected)),
                     Ink::heading, style) + '\n';
  if (g.step.value() > 0)
    text += wrapped(fmt::format("With failures a step takes {} on average, {} longer than the step "
                                "of {} that meets none.",
                                to_text(g.step), percent_text(g.step / g.model.step - 1),
                                to_text(g.model.step)),
                    2, 4, style);
  text += cadence_text(g, o, style) + played_text(g, o, seed, style);
  text += kinds_text(g, o, style) + rules_text(g, style);
  for (const std::string& assumed : g.assumed)
    text += wrapped("Assumed: " + assumed + ".", 2, 4, style);
  return text;
}

}  // namespace reports
