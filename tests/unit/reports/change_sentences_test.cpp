// Each sentence of "What would change the choice", held against every strategy of small spaces,
// each lowered and replayed.
#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>

#include "core/parse_units.hpp"
#include "planner/search/preference.hpp"
#include "reports/sensitivity.hpp"
#include "tests/catch.hpp"
#include "tests/unit/planner/whole_space.hpp"

using planner::Candidate;

namespace {

// Steps are printed to three digits, and the search ranks by a closed form that is 2 % off at most.
constexpr double kPrinted = 0.001, kClosedForm = 0.02;

double risk_of(const Candidate& c) { return c.uncertainty.out_of_memory; }

// The number that ends before `unit`: 0.98 of "is 0.98 % slower" before " % slower".
std::optional<double> number_before(std::string_view text, std::string_view unit) {
  const std::size_t end = text.find(unit);
  if (end == text.npos) return std::nullopt;
  const std::size_t begin = text.find_last_of(" (", end - 1) + 1;
  double number = 0;
  const auto read = std::from_chars(text.data() + begin, text.data() + end, number);
  REQUIRE(read.ptr == text.data() + end);
  return number;
}

// "0.98 % slower", "20.9 % faster", "as fast" in the sentence: the step that it speaks of.
double step_said(const std::string& sentence, const Candidate& chosen) {
  const auto slower = number_before(sentence, " % slower");
  const auto faster = number_before(sentence, " % faster");
  const double share = slower ? *slower : faster ? -*faster : 0;
  return chosen.time.step.value() * (1 + share / 100);
}

struct Asked {
  planner::Plan plan;
  std::vector<Candidate> all;          // that fit
  const Candidate& chosen() const { return *plan.chosen; }
  // No strategy with that property is faster than the sentence says.
  template <class Has>
  void check_fastest(const std::string& sentence, Has has) const {
    INFO(sentence);
    const double said = step_said(sentence, chosen());
    for (const Candidate& c : all) {
      if (!has(c)) continue;
      INFO(to_text(c.strategy) << ", " << c.time.step.value() << " s");
      CHECK(said <= (1 + kClosedForm + kPrinted) * c.time.step.value());
    }
  }
};

// How many times as slow: "2.3 % slower", "3 times as fast".
double slowdown_said(const std::string& line) {
  if (const auto share = number_before(line, " % slower")) return 1 + *share / 100;
  if (const auto share = number_before(line, " % faster")) return 1 / (1 + *share / 100);
  if (const auto times = number_before(line, " times as slow")) return *times;
  const auto times = number_before(line, " times as fast");
  REQUIRE(times);
  return 1 / *times;
}

// On links that are so much slower, and half of that again for what the sentence leaves out (hidden
// communication that no longer is), the other plan is the faster one.
void check_links(const Asked& asked, const planner::Request& request, const std::string& line) {
  const double slower = std::pow(slowdown_said(line), 1.5);
  planner::Request there = request;
  hw_profiles::Node& node = there.profile.node;
  node.link_bandwidth = node.link_bandwidth / slower;
  node.link_latency = node.link_latency * slower;
  const auto q =
      planner::make_question(there.model, asked.plan.job, there.profile, there.gpus).value();
  const auto step_of = [&](const planner::Strategy& s) {
    const auto graph = models::build_graph(
        there.model, planner::graph_options(q.job, s, q.profile.framework));
    return planner::evaluate(q, graph.value(), s).time.step;
  };
  INFO(line);
  bool found = false;
  for (const auto* list : {&asked.plan.alternatives, &asked.plan.pareto})
    for (const Candidate& c : *list) {
      const std::string keys = reports::changed_keys(asked.chosen().strategy, c.strategy);
      if (!line.ends_with(": " + keys + ".")) continue;
      found = true;
      CHECK(step_of(c.strategy) <= step_of(asked.chosen().strategy));
      break;
    }
  CHECK(found);
}

}  // namespace

TEST_CASE("what would change the choice is true of the whole space") {
  const auto request = GENERATE(planner_test::small_question("gpt2-1.5b", "rtx4090", 1, 16),
                                planner_test::small_question("gpt2-774m", "rtx3080", 2, 8),
                                planner_test::small_question("gpt2-355m", "rtx3080", 1, 16),
                                planner_test::small_question("gpt2-1.5b", "rtx3090", 2, 8));
  const Asked asked{planner_test::pinned_plan(request), planner_test::all_that_fit(request)};
  const Candidate& chosen = asked.chosen();
  INFO(asked.plan.model.name << " on " << asked.plan.gpus << " x " << asked.plan.profile.gpu.id
                             << ": " << to_text(chosen.strategy));
  const auto riskier = [&](const Candidate& c) {
    return risk_of(c) >= planner::kHardlyRisky && risk_of(c) > risk_of(chosen);
  };
  for (const std::string& line : reports::what_would_change(asked.plan)) {
    if (line.starts_with("The nearest alternative")) {
      // What it names takes the step that it says, when asked about again.
      bool found = false;
      for (const Candidate& c : asked.plan.alternatives)
        found |= std::abs(c.time.step.value() / step_said(line, chosen) - 1) < kPrinted;
      INFO(line);
      CHECK(found);
    } else if (line.starts_with("Safer")) {
      asked.check_fastest(line, [&](const Candidate& c) {
        return risk_of(c) < planner::kHardlyRisky && !(c.strategy == chosen.strategy);
      });
    } else if (line.starts_with("Faster but riskier")) {
      asked.check_fastest(line, riskier);
    } else if (line.starts_with("A plan that needs less memory")) {
      asked.check_fastest(line, [&](const Candidate& c) {
        return c.memory.worst.device < chosen.memory.worst.device;
      });
    } else if (line.starts_with("With ")) {
      // It fits a GPU with that much, and not this one.
      bool found = false;
      for (const planner::Rejection& r : asked.plan.rejected) {
        if (r.limit != "memory" ||
            line.find(core::to_text(core::Bytes(r.needed)) + " usable") == line.npos)
          continue;
        planner::Request larger = request;
        larger.profile.gpu.usable = core::Bytes(r.needed);
        const auto q = planner::make_question(larger.model, asked.plan.job, larger.profile,
                                              larger.gpus).value();
        const auto graph = models::build_graph(
            larger.model, planner::graph_options(q.job, r.strategy, q.profile.framework));
        const Candidate there = planner::evaluate(
            q, graph.value(), planner::resolve(larger.model, q.job, r.strategy));
        INFO(line << ": " << there.memory.worst.device.value() << " of " << r.needed);
        CHECK(static_cast<double>(there.memory.worst.device.value()) <=
              1.02 * static_cast<double>(r.needed));
        CHECK(there.memory.worst.device > chosen.memory.usable);
        found = true;
      }
      INFO(line);
      CHECK(found);
    } else if (line.starts_with("If the links were")) {
      check_links(asked, request, line);
    } else {
      FAIL("a sentence that nothing holds against the whole space: " << line);
    }
  }
}
