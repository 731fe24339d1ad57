#include "core/json.hpp"
#include "reports/validate/validation.hpp"

namespace reports::validation {
namespace {

using core::Json;

std::int64_t count(std::size_t n) { return static_cast<std::int64_t>(n); }

Json clusters_json(const std::vector<Cluster>& clusters) {
  Json array = Json::array();
  for (const Cluster& c : clusters)
    array.push_back(Json::object({{"dataset", c.dataset},
                                  {"framework", c.framework},
                                  {"gpu", c.gpu},
                                  {"rows", count(c.time.rows)},
                                  {"mape", c.time.mape},
                                  {"bias", c.time.bias}}));
  return array;
}

Json groups_json(const std::vector<GroupScore>& groups) {
  Json array = Json::array();
  for (const GroupScore& g : groups)
    array.push_back(Json::object({{"group", g.name},
                                  {"rows", count(g.rows)},
                                  {"regret", g.regret},
                                  {"rank", count(g.rank)},
                                  {"pick", g.pick},
                                  {"pick_error", g.pick_error},
                                  {"best", g.best},
                                  {"best_error", g.best_error},
                                  {"best_in_interval", g.best_in_interval},
                                  {"differ_in", g.differ_in}}));
  return array;
}

Json rows_json(const std::vector<RowScore>& rows) {
  Json array = Json::array();
  for (const RowScore& r : rows)
    array.push_back(Json::object({{"id", r.id},
                                  {"kind", name(r.kind)},
                                  {"measured", r.measured},
                                  {"predicted", r.predicted},
                                  {"relative_error", Json(r.relative_error)},
                                  {"dominant_term", r.dominant_term}}));
  return array;
}

}  // namespace

Json to_json(const ErrorScore& e) {
  return Json::object({{"rows", count(e.rows)},
                       {"mape", e.mape},
                       {"median_ape", e.median},
                       {"p90_ape", e.p90},
                       {"max_ape", e.most},
                       {"bias", e.bias}});
}

std::string to_json_text(const Scores& s) {
  Json skipped = Json::array();
  for (const Skipped& k : s.skipped)
    skipped.push_back(Json::object({{"id", k.id}, {"reason", k.reason}}));
  Json root = Json::object({{"schema", "validate/1"},
                            {"rows", count(s.rows)},
                            {"predicted", count(s.predicted)}});
  root.set("skipped", std::move(skipped));
  root.set("time", Json::object({{"rows", count(s.time.rows)},
                                 {"mape", s.time.mape},
                                 {"median_ape", s.time.median},
                                 {"p90_ape", s.time.p90},
                                 {"bias", s.time.bias},
                                 {"mape_by_dataset", s.time_by_dataset}}));
  root.set("time_closed_form", Json::object({{"rows", count(s.closed_form.rows)},
                                             {"mape", s.closed_form.mape},
                                             {"median_ape", s.closed_form.median},
                                             {"p90_ape", s.closed_form.p90},
                                             {"bias", s.closed_form.bias}}));
  root.set("memory", to_json(s.memory));
  root.set("memory_device", to_json(s.memory_device));
  root.set("fit", Json::object({{"rows", count(s.fit.rows)},
                                {"correct", count(s.fit.correct)},
                                {"false_fit", count(s.fit.false_fit)},
                                {"false_oom", count(s.fit.false_oom)}}));
  root.set("ranking", Json::object({{"groups", count(s.ranking.groups)},
                                    {"mean_regret", s.ranking.mean_regret},
                                    {"p90_regret", s.ranking.p90_regret},
                                    {"kendall_tau", s.ranking.kendall_tau}}));
  root.set("groups", groups_json(s.groups));
  root.set("by", clusters_json(s.by));
  Json sizes = Json::array();
  for (const SizeScore& k : s.by_size)
    sizes.push_back(Json::object({{"size", k.size},
                                  {"rows", count(k.time.rows)},
                                  {"mape", k.time.mape},
                                  {"bias", k.time.bias}}));
  root.set("by_size", std::move(sizes));
  root.set("per_row", rows_json(s.per_row));
  return core::dump(root) + '\n';
}

}  // namespace reports::validation
