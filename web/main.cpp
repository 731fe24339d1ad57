// The planner as a WebAssembly module: one question in, its answer out, both as JSON. A page makes
// a new instance of the module for each question, so that nothing stays behind; imports are those
// of WASI and `planner.progress`.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/call.hpp"
#include "cli/output.hpp"
#include "cli/process.hpp"
#include "cli/verbs.hpp"
#include "core/json.hpp"
#include "hw_profiles/load.hpp"
#include "models/zoo.hpp"
#include "planner/question/job.hpp"
#include "reports/emit/emit.hpp"

namespace cli {

// What the fields of the page's form may be: a verb of the page alone.
static int choices_verb() {
  using core::Json;
  const auto names = [](const auto& all) {
    Json list = Json::array();
    for (const auto& name : all) list.push_back(std::string(name));
    return list;
  };
  std::vector<std::string> models;
  for (const models::ZooEntry& entry : models::zoo()) models.push_back(entry.spec.name);
  const Json all = Json::object({{"models", names(models)},
                                 {"gpus", names(hw_profiles::profile_names())},
                                 {"frameworks", names(hw_profiles::framework_names())},
                                 {"recipes", names(planner::recipe_names())},
                                 {"targets", names(reports::emit::frameworks())}});
  const core::Status shown = write_stdout(core::dump(all));
  return shown.ok() ? kDone : refuse(shown.problems());
}

// The verbs that answer by files of the call alone.
static int run_verb(Arguments whole) {
  const std::string verb = whole.empty() ? "plan" : whole.front();
  const Arguments rest = whole.empty() ? whole : whole.subspan(1);
  if (verb == "plan") return plan_verb(rest);
  if (verb == "report") return report_verb(rest);
  if (verb == "emit") return emit_verb(rest);
  if (verb == "sweep") return sweep_verb(rest);
  if (verb == "min-gpus") return min_gpus_verb(rest);
  if (verb == "max-batch") return max_batch_verb(rest);
  if (verb == "models") return models_verb(rest);
  if (verb == "gpus") return gpus_verb(rest);
  if (verb == "choices") return choices_verb();
  return refuse({{"the page", "plan, report, emit, sweep, min-gpus, max-batch, models or gpus",
                  '"' + verb + '"', "run the planner binary in a shell"}});
}

}  // namespace cli

// The page is told bytes of UTF-8.
extern "C" __attribute__((import_module("planner"), import_name("progress"))) void planner_progress(
    const char* text, std::size_t size);

namespace {

std::string answered(std::string_view question) {
  using core::Json;
  const core::Result<Json> asked = core::parse_json(question, "the question");
  if (!asked.ok()) return core::dump(Json::object({{"code", cli::kBadInput}}));
  std::vector<std::string> words;
  for (const Json& word : asked->at("words").items()) words.push_back(word.as_string());
  core::Call::Files files;
  for (const Json::Member& file : asked->at("files").members())
    files.emplace(file.key, file.value.as_string());
  const core::Call call(std::move(files));
  const cli::CallAnswer answer = cli::answer_call_by(
      [&] { return cli::run_verb(words); }, call,
      [](std::string_view done) { planner_progress(done.data(), done.size()); });
  return core::dump(Json::object({{"code", answer.code},
                                  {"out", answer.out},
                                  {"reasons", answer.reasons},
                                  {"page", answer.page}}));
}

std::string question_text, answer_text;

}  // namespace

// The page writes its question, {"words": ["plan", ...], "files": {"path": "text"}}, to the place
// that planner_question gives, calls planner_answer with its bytes, and reads the answer, {"code",
// "out", "reasons", "page"}, from planner_answer_text.
extern "C" {

__attribute__((export_name("planner_question"))) char* planner_question(std::size_t bytes) {
  question_text.resize(bytes);
  return question_text.data();
}

__attribute__((export_name("planner_answer"))) std::size_t planner_answer() {
  answer_text = answered(question_text);
  return answer_text.size();
}

__attribute__((export_name("planner_answer_text"))) const char* planner_answer_text() {
  return answer_text.data();
}

}
