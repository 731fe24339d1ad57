#include <cmath>

#include <fmt/format.h>

#include "core/json.hpp"
#include "hw_profiles/numbers.hpp"
#include "reports/fit/fit.hpp"

namespace reports::fit {
namespace {

using core::Json;
using validation::ErrorScore;

Json error_json(const ErrorScore& e) {
  return Json::object({{"rows", static_cast<std::int64_t>(e.rows)},
                       {"mape", e.mape},
                       {"median_ape", e.median},
                       {"p90_ape", e.p90},
                       {"bias", e.bias}});
}

// At a bound: what the rows ask for is not believed.
bool at_bound(const Constant& c, double value) {
  return value < c.low * 1.001 || value > c.high / 1.001;
}

std::string constants_text(const Fitted& f, TextStyle style) {
  Table table({{"constant", Align::left}, {"value"}, {"before"}, {"low"}, {"high"}, {"rows"}});
  for (std::size_t k = 0; k < f.constants.size(); ++k) {
    const Constant& c = f.constants[k];
    const auto text = [&](double v) { return hw_profiles::rounded_text(c.field, v); };
    table.add({c.name(), text(f.values[k]) + (at_bound(c, f.values[k]) ? " !" : ""),
               text(c.prior), text(c.low), text(c.high), fmt::format("{}", f.cases[k])});
  }
  return table.text(style);
}

std::string errors_text(const Fitted& f, TextStyle style) {
  Table table({{"dataset", Align::left}, {"rows"}, {"fitted"}, {"left out"}, {"bias"},
               {"one run"}, {"by all"}});
  for (std::size_t i = 0; i < f.by_dataset.size(); ++i) {
    const auto& [dataset, error] = f.by_dataset[i];
    std::vector<std::string> row{dataset, fmt::format("{}", error.rows), percent_text(error.mape)};
    if (i < f.left_out.size()) {
      const LeftOut& out = f.left_out[i];
      row.insert(row.end(), {percent_text(out.time.mape), signed_percent_text(out.time.bias),
                             percent_text(out.one_run.mape),
                             percent_text(out.one_run_of_all.mape)});
    } else {
      row.insert(row.end(), 4, "");
    }
    table.add(std::move(row));
  }
  return table.text(style);
}

}  // namespace

std::string to_json_text(const Fitted& f) {
  Json constants = Json::array();
  for (std::size_t k = 0; k < f.constants.size(); ++k) {
    const Constant& c = f.constants[k];
    constants.push_back(
        Json::object({{"field", c.field},
                      {"of", Json::array_of(c.of)},
                      {"value", hw_profiles::rounded_text(c.field, f.values[k])},
                      {"prior", hw_profiles::rounded_text(c.field, c.prior)},
                      {"low", hw_profiles::rounded_text(c.field, c.low)},
                      {"high", hw_profiles::rounded_text(c.field, c.high)},
                      {"rows", static_cast<std::int64_t>(f.cases[k])},
                      {"at_bound", at_bound(c, f.values[k])},
                      {"why", c.why}}));
  }
  Json left_out = Json::array();
  for (const LeftOut& out : f.left_out) {
    Json rows = Json::array();
    for (const auto& [id, error] : out.errors)
      rows.push_back(Json::object({{"id", id}, {"relative_error", error}}));
    left_out.push_back(Json::object({{"dataset", out.dataset},
                                     {"time", error_json(out.time)},
                                     {"one_run", error_json(out.one_run)},
                                     {"one_run_of_all", error_json(out.one_run_of_all)},
                                     {"per_row", std::move(rows)}}));
  }
  Json by = Json::array();
  for (const auto& [dataset, error] : f.by_dataset) {
    Json one = error_json(error);
    one.set("dataset", dataset);
    by.push_back(std::move(one));
  }
  Json root = Json::object({{"schema", "fit/1"},
                            {"seed", f.seed},
                            {"rows", static_cast<std::int64_t>(f.rows)},
                            {"training", error_json(f.training)}});
  root.set("by", std::move(by));
  root.set("constants", std::move(constants));
  root.set("left_out", std::move(left_out));
  Json groups = Json::array();
  for (const LeftOut& out : f.groups) {
    Json one = error_json(out.time);
    one.set("without", out.dataset);
    groups.push_back(std::move(one));
  }
  root.set("left_out_groups", std::move(groups));
  root.set("left_out_mean",
           Json::object({{"datasets", mean_of_datasets(f.left_out, &LeftOut::time)},
                         {"rows", mean_of_rows(f.left_out, &LeftOut::time)},
                         {"one_run_datasets", mean_of_datasets(f.left_out, &LeftOut::one_run)},
                         {"one_run_rows", mean_of_rows(f.left_out, &LeftOut::one_run)},
                         {"one_run_of_all_datasets",
                          mean_of_datasets(f.left_out, &LeftOut::one_run_of_all)}}));
  Json site = Json::object({{"run", f.site.run}});
  for (const hw_profiles::SitePart part : hw_profiles::kSiteParts)
    site.set(name(part), f.site.parts[static_cast<std::size_t>(part)]);
  root.set("site", std::move(site));
  return core::dump(root, 2) + '\n';
}

std::string fit_text(const Fitted& f, TextStyle style) {
  std::string text = fmt::format(
      "{} constants, {} rows, seed {}\n\n", f.constants.size(), f.rows, f.seed);
  text += constants_text(f, style) + "  ! at a bound\n\n" + errors_text(f, style);
  text += fmt::format("\nfitted   mean error {}, median {}, bias {}\n",
                      percent_text(f.training.mape), percent_text(f.training.median),
                      signed_percent_text(f.training.bias));
  if (f.left_out.empty()) return text;
  text += fmt::format("left out mean of datasets {}, of rows {}; after one run {} and {}\n",
                      percent_text(mean_of_datasets(f.left_out, &LeftOut::time)),
                      percent_text(mean_of_rows(f.left_out, &LeftOut::time)),
                      percent_text(mean_of_datasets(f.left_out, &LeftOut::one_run)),
                      percent_text(mean_of_rows(f.left_out, &LeftOut::one_run)));
  text += "sites differ (standard deviation) in";
  for (const hw_profiles::SitePart part : hw_profiles::kSiteParts)
    text += fmt::format(" {} by {},", name(part),
                        percent_text(std::sqrt(f.site.parts[static_cast<std::size_t>(part)])));
  text += fmt::format(" a run's own by {}\n", percent_text(std::sqrt(f.site.run)));
  return text;
}

}  // namespace reports::fit
