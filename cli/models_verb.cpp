#include "cli/output.hpp"
#include "cli/process.hpp"
#include "cli/verbs.hpp"
#include "core/json.hpp"
#include "core/parse_units.hpp"
#include "models/zoo.hpp"
#include "reports/text.hpp"

namespace cli {
namespace {

using core::Json;

std::string models_json(const std::vector<models::ZooEntry>& zoo) {
  Json array = Json::array();
  for (const models::ZooEntry& e : zoo)
    array.push_back(Json::object({{"name", e.spec.name},
                                  {"family", models::name(e.spec.family)},
                                  {"parameters", e.parameters},
                                  {"layers", e.spec.layers},
                                  {"hidden", e.spec.hidden},
                                  {"heads", e.spec.heads},
                                  {"vocab", e.spec.vocab},
                                  {"seq_len", e.spec.default_seq_len},
                                  {"global_batch", e.spec.default_global_batch},
                                  {"source", e.spec.source}}));
  return core::dump(Json::object({{"schema", "models/1"}, {"models", array}})) + '\n';
}

// What a job takes where it says nothing: "512 x 1024 tokens", "128 samples".
std::string step_text(const models::ModelSpec& spec) {
  const std::string samples = std::to_string(spec.default_global_batch);
  if (!models::is_transformer(spec.family)) return samples + " samples";
  return samples + " x " + std::to_string(spec.default_seq_len) + " tokens";
}

std::string models_text(const std::vector<models::ZooEntry>& zoo) {
  using reports::Align;
  const reports::TextStyle style = page_style();
  std::vector<reports::Column> columns{{"model", Align::left}, {"family", Align::left},
                                       {"parameters"},         {"layers"},
                                       {"hidden"},             {"a step", Align::left}};
  if (style.wide()) columns.push_back({"source", Align::left});
  reports::Table table(std::move(columns));
  for (const models::ZooEntry& e : zoo) {
    std::vector<std::string> cells{e.spec.name,
                                   std::string(models::name(e.spec.family)),
                                   core::count_text(e.parameters),
                                   std::to_string(e.spec.layers),
                                   e.spec.hidden > 0 ? std::to_string(e.spec.hidden) : "-",
                                   step_text(e.spec)};
    if (style.wide()) cells.push_back(e.spec.source);
    table.add(std::move(cells));
  }
  const char* more = style.wide() ? "" : "\nSources: with --json, or on a wider terminal.\n";
  return table.text(style) + more +
         next_text({{"planner --model llama3-8b --gpus 8", "plans how to train one"},
                    {"planner --model ./config.json --gpus 8", "or one of your own"}});
}

}  // namespace

int models_verb(Arguments arguments) {
  OutputOptions output;
  OptionSet set("models", "Lists the models that are known by name.", "  planner models");
  add_output_options(set, output, "the list");
  if (const auto ended = ended_by(set, arguments)) return *ended;
  const core::Status target = check_output(output);
  if (!target.ok()) return refuse(target.problems());
  const std::vector<models::ZooEntry> zoo = models::zoo();
  const core::Status delivered =
      deliver(output, models_json(zoo), [&] { return models_text(zoo); });
  return delivered.ok() ? kDone : refuse(delivered.problems());
}

}  // namespace cli
