#include "reports/fit/validation_page.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "core/code.hpp"
#include "hw_profiles/numbers.hpp"
#include "reports/fit/clusters.hpp"
#include "reports/fit/left_out_accuracy.hpp"
#include "reports/validate/neighbours.hpp"

namespace reports::fit {
namespace {

using core::Code;
using core::code;
using core::markdown_row;
using validation::Predicted;

constexpr std::size_t kWorstTimes = 25;
constexpr double kBadMemory = 0.08;
constexpr std::size_t kWorstClusters = 10;

constexpr std::string_view kClaims =
    "## Beside what others claim\n\n"
    "| who | what | claim | on |\n|---|---|---|---|\n"
    "| SimuMax | time | 1.5 % | 30 rows on A100 that it profiled |\n"
    "| SimuMax | time | 5.6 % | 43 rows on B200 |\n"
    "| SimuMax | memory | 0.46 % | the same |\n"
    "| Calculon | time | 3.65 % | 8 rows |\n"
    "| Calculon | memory of the state | 8.5 % | the same |\n"
    "| vTrain | time | 8.37 % | the rows of vtrain-single, from profiles of their kernels |\n"
    "| vTrain | time | 14.73 % | the rows of vtrain-multi |\n"
    "| a constant MFU | time | 43 % | the rows of runs.csv |\n\n"
    "These are their authors' figures on rows they chose, most of them with profiles of the "
    "machine "
    "at hand. Ours are for every timed row of the files, from shipped profiles; what a new site "
    "gets "
    "is the column \"left out\".\n";

Code percent(double x) {
  return Code::own(percent_text(x));
}

Code headline(const validation::Scores& s) {
  Code text = code("{} of {} rows predicted.\n\n", s.predicted, s.rows);
  text += "| | rows | mean error | median | p90 | bias |\n|---|---|---|---|---|---|\n";
  const auto add = [&](std::string_view what, const validation::ErrorScore& e) {
    text += markdown_row(what, e.rows, percent(e.mape), percent(e.median), percent(e.p90),
                         signed_percent_text(e.bias));
  };
  add("time, as a plan states it", s.time);
  add("time, closed form alone", s.closed_form);
  add("memory of the allocator", s.memory);
  add("memory as the driver's tool printed it", s.memory_device);
  const double right = s.fit.rows > 0
                           ? static_cast<double>(s.fit.correct) / static_cast<double>(s.fit.rows)
                           : 0;
  text += code("\nFit: {} of {} verdicts right ({}), {} wrongly said to fit, {} wrongly not.\n",
               s.fit.correct, s.fit.rows, percent(right), s.fit.false_fit, s.fit.false_oom);
  text += code(
      "Choice among alternatives: {} groups, mean regret {}, p90 {}, Kendall's tau "
      "{:.2f}.\n\n",
      s.ranking.groups, percent(s.ranking.mean_regret), percent(s.ranking.p90_regret),
      s.ranking.kendall_tau);
  return text;
}

Code clusters(const validation::Scores& s) {
  Code text =
      "## By source\n\n| dataset | framework | GPU | rows | error | bias |\n"
      "|---|---|---|---|---|---|\n";
  for (const validation::Cluster& c : s.by)
    text += markdown_row(c.dataset, c.framework, c.gpu, c.time.rows, percent(c.time.mape),
                         signed_percent_text(c.time.bias));
  text += "\n| size | rows | error | bias |\n|---|---|---|---|\n";
  for (const validation::SizeScore& k : s.by_size)
    text +=
        markdown_row(k.size, k.time.rows, percent(k.time.mape), signed_percent_text(k.time.bias));
  return text + "\n";
}

// Of a step that kernels take whole, after one run like it.
double factor_after_kernels(const planner::Accuracy& a) {
  const planner::SiteSlopes slopes{1, 0, 0};
  const std::vector<planner::SiteRun> one{{"gpu", 0, slopes}};
  const hw_profiles::SiteFile site = planner::SiteEvidence(one).learnt(a.site);
  return std::exp(a.site_reach * std::sqrt(planner::left_variance(site, "gpu", slopes, a.site)));
}

Code left_out_groups(const Fitted& f) {
  if (f.groups.empty()) return "";
  Code text =
      "The same without every row of a kind:\n\n"
      "| left out | rows | error | bias |\n|---|---|---|---|\n";
  for (const LeftOut& out : f.groups)
    text += markdown_row(out.dataset, out.errors.size(), percent(out.time.mape),
                         signed_percent_text(out.time.bias));
  return text + "\n";
}

Code left_out_regimes(const Fitted& f) {
  Code text =
      "By what a step waits for, of the rows of left-out datasets, each dataset "
      "weighing 1:\n\n| | rows | datasets | error | bias | interval |\n"
      "|---|---|---|---|---|---|\n";
  const planner::Accuracy& a = planner::accuracy();
  for (const RegimeScore& s : by_regime(f.left_out))
    text += markdown_row(words(s.regime), s.rows, s.datasets, percent(s.mape),
                         signed_percent_text(s.bias),
                         code("{:.2f}", a.step_factor(0, a.of(s.regime).more)));
  return text + "\n";
}

Code left_out_clusters(const Fitted& f) {
  Code text =
      "The worst clusters, of runs of one source that wait for the same, by constants that never "
      "saw the source:\n\n| source | runs | rows | error | bias | cause |\n"
      "|---|---|---|---|---|---|\n";
  for (const WorstCluster& c : worst_clusters(f.left_out, kWorstClusters))
    text += markdown_row(c.dataset, words(c.regime), c.rows, percent(c.mape),
                         signed_percent_text(c.bias), c.cause.empty() ? "not known" : c.cause);
  return text + "\n";
}

Code left_out(const Fitted& f) {
  if (f.left_out.empty()) return "";
  Code text =
      "## Fitted without the source that is scored\n\n"
      "All constants start from what is believed beforehand and never see the rows of the source. "
      "After one run: each of its runs in turn, not scored, has calibrated the site's device, "
      "host, links and network, as `planner calibrate` does, weighed by how the sites of the other "
      "sources differ and by what these tell of the GPU.\n\n"
      "| left out | rows | fitted with it | left out | bias | after one run |\n"
      "|---|---|---|---|---|---|\n";
  for (std::size_t i = 0; i < f.left_out.size(); ++i) {
    const LeftOut& out = f.left_out[i];
    text += markdown_row(out.dataset, out.errors.size(), percent(f.by_dataset[i].second.mape),
                         percent(out.time.mape), signed_percent_text(out.time.bias),
                         percent(out.one_run.mape));
  }
  text += code("| mean of datasets | | | {} | | {} |\n| mean of rows | {} | {} | {} | | {} |\n\n",
               percent(mean_of_datasets(f.left_out, &LeftOut::time)),
               percent(mean_of_datasets(f.left_out, &LeftOut::one_run)), f.rows,
               percent(f.training.mape), percent(mean_of_rows(f.left_out, &LeftOut::time)),
               percent(mean_of_rows(f.left_out, &LeftOut::one_run)));
  text += left_out_groups(f);
  text += left_out_regimes(f);
  text += left_out_clusters(f);
  const planner::Accuracy a = planner::accuracy();
  text += "Between sites, by all left-out rows:";
  for (const hw_profiles::SitePart part : hw_profiles::kSiteParts)
    text += code(" {} {},", Code::own(name(part)),
                 percent(std::sqrt(f.site.parts[static_cast<std::size_t>(part)])));
  text += code(
      " a run beside its site {} (standard deviations). Weighed by these, which "
      "have seen the source, the mean of datasets after one run is {}.\n\n",
      percent(std::sqrt(f.site.run)),
      percent(mean_of_datasets(f.left_out, &LeftOut::one_run_of_all)));
  const Coverage c = coverage_of(f.left_out, a);
  text += code(
      "Intervals: a plan states {:.0f} % within a factor {:.2f}, after a run less, by how alike "
      "the two spend their time: {:.2f} for a step of kernels alone. Of the left-out rows, each "
      "dataset weighing 1, {} and {} lie inside.\n\n",
      100 * a.coverage, a.step_factor(0), factor_after_kernels(a), percent(c.uncalibrated),
      percent(c.one_run));
  return text;
}

struct Bad {
  std::size_t row;
  double error;
};

std::vector<Bad> sorted_errors(const std::vector<std::optional<double>>& errors) {
  std::vector<Bad> all;
  for (std::size_t i = 0; i < errors.size(); ++i)
    if (errors[i]) all.push_back({i, *errors[i]});
  std::ranges::stable_sort(all, std::ranges::greater{},
                           [](const Bad& b) { return std::abs(b.error); });
  return all;
}

Code worst(const validation::Validation& v, bool of_time) {
  const auto errors = of_time ? validation::time_errors(v.rows) : validation::memory_errors(v.rows);
  std::map<std::string, std::string> dominant;
  for (const validation::RowScore& r : v.scores.per_row)
    if (r.kind == (of_time ? validation::ScoreKind::time : validation::ScoreKind::memory))
      dominant[r.id] = r.dominant_term;
  std::vector<Bad> bad = sorted_errors(errors);
  if (of_time && bad.size() > kWorstTimes) bad.resize(kWorstTimes);
  if (!of_time) std::erase_if(bad, [](const Bad& b) { return std::abs(b.error) <= kBadMemory; });
  Code text = "| row | error | mostly | lies in |\n|---|---|---|---|\n";
  for (const Bad& b : bad)
    text += markdown_row(v.rows[b.row].row.id, signed_percent_text(b.error),
                         dominant[v.rows[b.row].row.id],
                         validation::explanation_of(b.row, v.rows, errors));
  return text + "\n";
}

Code wrong_verdicts(const validation::Validation& v) {
  Code text =
      "## Verdicts of fit that are wrong\n\n"
      "| row | ran | predicted | usable | probability of running out |\n"
      "|---|---|---|---|---|\n";
  const double gib = static_cast<double>(core::gib(1).value());
  for (const Predicted& p : v.rows) {
    if (!p.row.fits || *p.row.fits == p.fits()) continue;
    const planner::Memory& m = p.candidate.memory;
    text += markdown_row(p.row.id, *p.row.fits ? "yes" : "no",
                         code("{:.1f} GiB", static_cast<double>(m.worst.device.value()) / gib),
                         code("{:.1f} GiB", static_cast<double>(m.usable.value()) / gib),
                         percent(p.candidate.uncertainty.out_of_memory));
  }
  return text + "\n";
}

Code constants(const Fitted& f) {
  Code text =
      "## Constants\n\n" +
      code(
          "{} constants, each of a GPU, a kind of node or a framework; bounds, what is "
          "believed beforehand and why are data (reports/fit/constants.json). Fitted to {} "
          "rows with seed {}. Those of memory (`kept_*`, `gathers_logits`, `stand_ins`, "
          "`root_unit`, `whole_scales`, `fixed_memory`, `pass_gradients`, `reducer_buckets`, "
          "`row_buffers`, `rows_waiting`, `update_copies`, `adapter_inputs`) are not fitted: they "
          "were chosen by hand on published runs, and no left-out figure exists for them.\n\n",
          f.constants.size(), f.rows, f.seed) +
      "| constant | value | believed | low | high | rows |\n|---|---|---|---|---|---|\n";
  for (std::size_t k = 0; k < f.constants.size(); ++k) {
    const Constant& c = f.constants[k];
    const auto show = [&](double v) { return hw_profiles::rounded_text(c.field, v); };
    text += markdown_row(c.name(), show(f.values[k]),
                         fmt::format("{} +- {:.0f} %", show(c.prior), 100 * c.spread), show(c.low),
                         show(c.high), f.cases[k]);
  }
  return text + "\n";
}

}  // namespace

std::string validation_page(const validation::Validation& v, const Fitted& fitted,
                            std::string_view file, std::string_view scatter,
                            const Code& collectives) {
  Code text = code(
      "# Predictions against published runs\n\nMade by `planner validate --report FILE` from {}; "
      "but for the causes of clusters nothing here is written by hand. Errors are (predicted - "
      "measured) / measured.\n\n",
      Code::markdown(file));
  text += headline(v.scores);
  text += code("![predicted against measured step times]({})\n\n", Code::markdown(scatter));
  text += left_out(fitted) + clusters(v.scores);
  text += "## The worst times, and where the error lies\n\n" + worst(v, true);
  text += "## Memory that is more than 8 % off\n\n" + worst(v, false);
  text += wrong_verdicts(v) + collectives + constants(fitted);
  return (text + Code::own(kClaims)).text();
}

}  // namespace reports::fit
