#include "reports/validate/score.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "core/check.hpp"

namespace reports::validation {
namespace {

constexpr double kMost = 0.9;  // the share of rows that p90 covers

std::string greatest(const std::vector<std::pair<std::string, double>>& terms) {
  return std::ranges::max_element(terms, {}, &std::pair<std::string, double>::second)->first;
}

std::string dominant_time(const planner::Time& t) {
  return greatest({{"compute", t.compute.value()},
                   {"exposed_communication", t.exposed_communication.value()},
                   {"bubble", t.bubble.value()},
                   {"optimizer", t.optimizer.value()}});
}

std::string dominant_memory(const planner::MemoryTerms& m) {
  std::vector<std::pair<std::string, double>> terms;
  for (std::size_t i = 0; i < m.terms.size(); ++i)
    terms.emplace_back(program::name(static_cast<program::Term>(i)),
                       static_cast<double>(m.terms[i].value()));
  return greatest(terms);
}

double quantile(const std::vector<double>& sorted, double share) {
  if (sorted.empty()) return 0;
  const auto at = static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1) + 0.5);
  return sorted[at];
}

std::vector<RowScore> scores_of(const Predicted& p) {
  std::vector<RowScore> scores;
  const auto add = [&](ScoreKind kind, double measured, double predicted, std::string dominant) {
    const bool verdict = kind == ScoreKind::fit;
    scores.push_back({p.row.id, kind, measured, predicted,
                      verdict ? std::nullopt
                              : std::optional((predicted - measured) / measured),
                      std::move(dominant)});
  };
  const planner::Candidate& c = p.candidate;
  if (p.row.step)
    add(ScoreKind::time, p.row.step->value(), c.time.step.value(), dominant_time(c.time));
  if (p.row.peak_bytes)
    add(ScoreKind::memory, *p.row.peak_bytes, p.memory_bytes(), dominant_memory(c.memory.worst));
  if (p.row.fits)
    add(ScoreKind::fit, *p.row.fits, p.fits(), dominant_memory(c.memory.worst));
  return scores;
}

void count_fit(const Predicted& p, FitScore& fit) {
  if (!p.row.fits) return;
  ++fit.rows;
  if (p.fits() == *p.row.fits) ++fit.correct;
  else ++(p.fits() ? fit.false_fit : fit.false_oom);
}

RankingScore ranking_of(const std::vector<GroupScore>& groups) {
  RankingScore ranking;
  ranking.groups = groups.size();
  if (groups.empty()) return ranking;
  std::vector<double> regrets;
  double alike = 0, pairs = 0;
  for (const GroupScore& g : groups) {
    regrets.push_back(g.regret);
    ranking.mean_regret += g.regret / static_cast<double>(groups.size());
    alike += g.ordered_alike;
    pairs += g.pairs;
  }
  std::ranges::sort(regrets);
  ranking.p90_regret = quantile(regrets, kMost);
  ranking.kendall_tau = alike / pairs;
  return ranking;
}

std::vector<Cluster> clusters(const std::vector<Predicted>& rows) {
  std::map<std::tuple<std::string, std::string, std::string>, std::vector<double>> errors;
  for (const Predicted& p : rows)
    if (p.row.step)
      errors[{p.row.dataset, p.row.framework, p.row.gpu}].push_back(
          p.candidate.time.step.value() / p.row.step->value() - 1);
  std::vector<Cluster> all;
  for (auto& [key, list] : errors)
    all.push_back({std::get<0>(key), std::get<1>(key), std::get<2>(key),
                   error_score(std::move(list))});
  return all;
}

struct SizeClass { std::string_view name; std::int64_t below; };
constexpr std::int64_t kGiga = 1'000'000'000, kNoLimit = std::numeric_limits<std::int64_t>::max();
constexpr std::array kModelSizes{SizeClass{"less than 1 G parameters", kGiga},
                                 SizeClass{"1 to 10 G parameters", 10 * kGiga},
                                 SizeClass{"10 to 100 G parameters", 100 * kGiga},
                                 SizeClass{"100 G parameters and more", kNoLimit}};
constexpr std::array kMachineSizes{SizeClass{"1 to 8 GPUs", 9}, SizeClass{"9 to 64 GPUs", 65},
                                   SizeClass{"65 to 512 GPUs", 513},
                                   SizeClass{"more than 512 GPUs", kNoLimit}};

void add_sizes(const std::vector<Predicted>& rows, const std::array<SizeClass, 4>& classes,
               const std::function<std::int64_t(const Predicted&)>& size,
               std::vector<SizeScore>& out) {
  std::array<std::vector<double>, 4> errors;
  for (const Predicted& p : rows) {
    if (!p.row.step) continue;
    const auto k = std::ranges::find_if(
        classes, [n = size(p)](const SizeClass& c) { return n < c.below; });
    errors[static_cast<std::size_t>(k - classes.begin())].push_back(
        p.candidate.time.step.value() / p.row.step->value() - 1);
  }
  for (std::size_t i = 0; i < classes.size(); ++i)
    if (!errors[i].empty())
      out.push_back({std::string(classes[i].name), error_score(std::move(errors[i]))});
}

double mean_over_datasets(const std::vector<Predicted>& rows) {
  std::map<std::string, std::vector<double>> errors;
  for (const Predicted& p : rows)
    if (p.row.step)
      errors[p.row.dataset].push_back(p.candidate.time.step.value() / p.row.step->value() - 1);
  double sum = 0;
  for (auto& [dataset, list] : errors) sum += error_score(std::move(list)).mape;
  return errors.empty() ? 0 : sum / static_cast<double>(errors.size());
}

}  // namespace

double Predicted::memory_bytes() const {
  const planner::Memory& all = candidate.memory;
  const bool first = row.first_stage && !all.stages.empty();
  const planner::MemoryTerms& m = first ? all.stages.front().memory : all.worst;
  // The matrix library's workspace is taken from the framework's allocator (torch).
  const double workspace = static_cast<double>(m.workspace.value());
  switch (row.memory_kind) {
    case MemoryKind::allocated: return static_cast<double>(m.live.value()) + workspace;
    case MemoryKind::reserved: {
      // What ran had no more than the device has.
      const core::Bytes left = std::max(core::Bytes{}, all.usable - (m.device - m.waiting));
      return static_cast<double>((m.reserved + std::min(m.waiting, left)).value()) + workspace;
    }
    case MemoryKind::device: return static_cast<double>(m.device.value());
  }
  return 0;
}

std::string_view name(ScoreKind kind) {
  constexpr std::array<std::string_view, 3> names{"time", "memory", "fit"};
  return names[static_cast<std::size_t>(kind)];
}

ErrorScore error_score(std::vector<double> errors) {
  ErrorScore s;
  s.rows = errors.size();
  if (errors.empty()) return s;
  const double n = static_cast<double>(errors.size());
  for (double& e : errors) {
    s.bias += e / n;
    e = std::abs(e);
    s.mape += e / n;
  }
  std::ranges::sort(errors);
  s.median = quantile(errors, 0.5);
  s.p90 = quantile(errors, kMost);
  s.most = errors.back();
  return s;
}

Scores score(const std::vector<Predicted>& rows, std::vector<Skipped> skipped) {
  Scores s;
  s.rows = rows.size() + skipped.size();
  s.predicted = rows.size();
  s.skipped = std::move(skipped);
  std::vector<double> time, memory, device;
  for (const Predicted& p : rows) {
    for (RowScore& r : scores_of(p)) {
      if (r.kind == ScoreKind::time) time.push_back(*r.relative_error);
      if (r.kind == ScoreKind::memory)
        (p.row.memory_kind == MemoryKind::device ? device : memory).push_back(*r.relative_error);
      s.per_row.push_back(std::move(r));
    }
    count_fit(p, s.fit);
  }
  s.time = error_score(std::move(time));
  std::vector<double> closed_form;
  for (const Predicted& p : rows)
    if (p.row.step && p.closed_form) closed_form.push_back(*p.closed_form / *p.row.step - 1);
  s.closed_form = error_score(std::move(closed_form));
  s.memory = error_score(std::move(memory));
  s.memory_device = error_score(std::move(device));
  s.time_by_dataset = mean_over_datasets(rows);
  s.groups = group_scores(rows);
  s.ranking = ranking_of(s.groups);
  s.by = clusters(rows);
  add_sizes(rows, kModelSizes, [](const Predicted& p) { return p.parameters; }, s.by_size);
  add_sizes(rows, kMachineSizes, [](const Predicted& p) { return p.row.gpus; }, s.by_size);
  return s;
}

}  // namespace reports::validation
