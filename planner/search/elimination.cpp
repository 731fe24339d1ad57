#include "planner/search/elimination.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>

#include "core/check.hpp"

namespace planner {
namespace {

// Of sums that differ by no more than their rounding, the first choice is the best.
constexpr double kSame = 1e-12;
constexpr double kInfinite = std::numeric_limits<double>::max();

// Costs of all choices of some variables; the last one's choices follow each other.
struct Table {
  std::vector<int> scope;              // ascending
  std::vector<double> cost;
};

class Elimination {
 public:
  explicit Elimination(const PairwiseProblem& problem)
      : problem_(problem),
        neighbours_(problem.own.size()),
        entries_(problem.own.size(), 1),
        tables_of_(problem.own.size()) {
    for (std::size_t v = 0; v < problem.own.size(); ++v)
      add({{static_cast<int>(v)}, problem.own[v]});
    for (const PairwiseProblem::Pair& p : problem.pairs) add(sorted(p));
    for (std::size_t v = 0; v < problem.own.size(); ++v) entries_[v] = entries_of(neighbours_[v]);
  }

  // Nothing where a table would have more than `most` entries.
  std::optional<std::vector<int>> run(std::size_t most) {
    std::vector<bool> gone(problem_.own.size(), false);
    for (std::size_t step = 0; step < gone.size(); ++step) {
      std::size_t next = gone.size();
      for (std::size_t v = 0; v < gone.size(); ++v)
        if (!gone[v] && (next == gone.size() || entries_[v] < entries_[next])) next = v;
      if (entries_[next] > most) return std::nullopt;
      eliminate(static_cast<int>(next));
      gone[next] = true;
    }
    return choices();
  }

 private:
  std::size_t choices_of(int v) const { return problem_.own[at(v)].size(); }
  std::uint64_t entries_of(const std::set<int>& scope) const {
    constexpr std::uint64_t kBeyond = std::uint64_t{1} << 40;
    std::uint64_t n = 1;
    for (const int v : scope) n = std::min(kBeyond, n * choices_of(v));
    return n;
  }

  void add(Table table) {
    for (const int v : table.scope) {
      tables_of_[at(v)].push_back(tables_.size());
      neighbours_[at(v)].insert(table.scope.begin(), table.scope.end());
      neighbours_[at(v)].erase(v);
    }
    tables_.push_back(std::move(table));
  }

  Table sorted(const PairwiseProblem::Pair& p) const {
    PLANNER_CHECK(p.a != p.b, "a pair of different variables");
    const std::size_t na = choices_of(p.a), nb = choices_of(p.b);
    PLANNER_CHECK(p.cost.size() == na * nb, "a cost for each pair of choices");
    if (p.a < p.b) return {{p.a, p.b}, p.cost};
    Table t{{p.b, p.a}, std::vector<double>(p.cost.size())};
    for (std::size_t a = 0; a < na; ++a)
      for (std::size_t b = 0; b < nb; ++b) t.cost[b * na + a] = p.cost[a * nb + b];
    return t;
  }

  // Of an entry's place in the table, what a choice more of a variable adds; 0 where it has none.
  std::size_t stride(const Table& t, int of) const {
    std::size_t stride = 1;
    for (auto v = t.scope.rbegin(); v != t.scope.rend(); ++v) {
      if (*v == of) return stride;
      stride *= choices_of(*v);
    }
    return 0;
  }

  void eliminate(int v) {
    const std::set<int> scope = neighbours_[at(v)];
    Table made{{scope.begin(), scope.end()}, {}};
    std::vector<Table> with;
    for (const std::size_t t : tables_of_[at(v)]) {
      if (tables_[t].scope.empty()) continue;  // it went with another of its variables
      with.push_back(std::move(tables_[t]));
      tables_[t] = {};
    }
    const auto entries = static_cast<std::size_t>(entries_[at(v)]);
    const std::size_t depth = made.scope.size();
    Step step{v, made.scope, std::vector<int>(entries)};
    made.cost.resize(entries);
    // Where each table's entry for the scope's choices and the first of v is.
    std::vector<std::size_t> places(with.size(), 0), chosen(depth, 0);
    std::vector<std::vector<std::size_t>> strides(with.size());
    for (std::size_t t = 0; t < with.size(); ++t) {
      for (const int other : made.scope) strides[t].push_back(stride(with[t], other));
      strides[t].push_back(stride(with[t], v));
    }
    for (std::size_t i = 0; i < entries; ++i) {
      double least = kInfinite;
      for (std::size_t c = 0; c < choices_of(v); ++c) {
        double sum = 0;
        for (std::size_t t = 0; t < with.size(); ++t)
          sum += with[t].cost[places[t] + c * strides[t][depth]];
        if (sum < least - kSame * std::abs(least)) least = sum, step.best[i] = static_cast<int>(c);
      }
      made.cost[i] = least;
      for (std::size_t d = depth; d-- > 0;) {  // the next entry
        const bool carries = ++chosen[d] == choices_of(made.scope[d]);
        for (std::size_t t = 0; t < with.size(); ++t)
          places[t] += strides[t][d] - (carries ? chosen[d] * strides[t][d] : 0);
        if (!carries) break;
        chosen[d] = 0;
      }
    }
    steps_.push_back(std::move(step));
    if (!made.scope.empty()) add(std::move(made));
    for (const int other : scope) {
      neighbours_[at(other)].erase(v);
      entries_[at(other)] = entries_of(neighbours_[at(other)]);
    }
  }

  // From the last variable that went to the first.
  std::vector<int> choices() const {
    std::vector<int> found(problem_.own.size(), 0);
    for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
      std::size_t i = 0;
      for (const int v : step->scope) i = i * choices_of(v) + at(found[at(v)]);
      found[at(step->variable)] = step->best[i];
    }
    return found;
  }

  struct Step {
    int variable = 0;
    std::vector<int> scope, best;      // the best choice for each of the scope's
  };
  const PairwiseProblem& problem_;
  std::vector<Table> tables_;          // empty: gone
  // By variable: others in one table with it; entries of the table that takes its place; tables.
  std::vector<std::set<int>> neighbours_;
  std::vector<std::uint64_t> entries_;
  std::vector<std::vector<std::size_t>> tables_of_;
  std::vector<Step> steps_;
};

double least_of(const std::vector<double>& costs) { return *std::ranges::min_element(costs); }

// The variable whose change saves most changes first, until none saves anything.
std::vector<int> descend(const PairwiseProblem& problem, std::span<const int> start) {
  std::vector<int> found(problem.own.size(), 0);
  std::ranges::copy(start, found.begin());
  double cost = cost_of(problem, found);
  while (true) {
    std::vector<int> best = found;
    double least = cost;
    for (std::size_t v = 0; v < found.size(); ++v) {
      std::vector<int> changed = found;
      for (std::size_t c = 0; c < problem.own[v].size(); ++c) {
        changed[v] = static_cast<int>(c);
        const double sum = cost_of(problem, changed);
        if (sum < least) least = sum, best = changed;
      }
    }
    if (!(least < cost)) return found;
    found = std::move(best);
    cost = least;
  }
}

}  // namespace

double cost_of(const PairwiseProblem& problem, std::span<const int> choices) {
  double sum = 0;
  for (std::size_t v = 0; v < problem.own.size(); ++v) sum += problem.own[v][at(choices[v])];
  for (const PairwiseProblem::Pair& p : problem.pairs)
    sum += p.cost[at(choices[at(p.a)]) * problem.own[at(p.b)].size() + at(choices[at(p.b)])];
  return sum;
}

Assignment minimise(const PairwiseProblem& problem, std::span<const int> start,
                    std::size_t most) {
  Assignment found;
  if (auto exact = Elimination(problem).run(most)) {
    found.choices = std::move(*exact);
    found.cost = found.bound = cost_of(problem, found.choices);
    return found;
  }
  found.choices = descend(problem, start);
  found.cost = cost_of(problem, found.choices);
  for (const std::vector<double>& own : problem.own) found.bound += least_of(own);
  for (const PairwiseProblem::Pair& p : problem.pairs) found.bound += least_of(p.cost);
  return found;
}

}  // namespace planner
