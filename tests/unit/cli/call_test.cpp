#include "cli/call.hpp"

#include <string>
#include <thread>
#include <vector>

#include "core/json.hpp"
#include "tests/catch.hpp"

namespace {

using Words = std::vector<std::string>;

cli::CallAnswer ask(const Words& words, const core::Call& call = core::Call()) {
  return cli::answer_call(words, call);
}

// A plan's text but for the seconds that the search took.
std::string timeless(const std::string& text) {
  const std::size_t at = text.find("\"seconds\": ", text.find("\"search\": {"));
  const std::size_t end = text.find('\n', at);
  return text.substr(0, at) + text.substr(end);
}

const Words kPlan{"plan", "--model", "gpt2-124m", "--gpus", "2", "--gpu", "rtx3090", "--json"};

}  // namespace

TEST_CASE("a call answers with the JSON, and with the page that goes without --json") {
  const cli::CallAnswer answer = ask(kPlan);
  CHECK(answer.code == 0);
  CHECK(answer.reasons.empty());
  CHECK(core::parse_json(answer.out, "plan").value().at("schema").as_string() == "plan/1");
  CHECK(answer.page == ask({kPlan.begin(), kPlan.end() - 1}).out);
}

TEST_CASE("a call that is refused says why, without the name of the program") {
  const cli::CallAnswer answer = ask({"plan", "--modl", "gpt2-124m"});
  CHECK(answer.code == 2);
  CHECK(answer.out.empty());
  CHECK(answer.reasons ==
        "command line: expected a known option, found \"--modl\"; did you mean --model?\n");
}

TEST_CASE("a call whose answer is no has the plan and the reason") {
  const cli::CallAnswer answer =
      ask({"plan", "--model", "llama3-70b", "--gpus", "2", "--gpu", "rtx3090", "--json"});
  CHECK(answer.code == 1);
  CHECK(core::parse_json(answer.out, "plan").value().at("chosen").is_null());
  CHECK(answer.reasons.starts_with("no feasible strategy"));
}

TEST_CASE("verbs that need a process of their own are refused in a call") {
  for (const Words& words : {Words{"exec", "plan.json"}, Words{"bench"}, Words{"doctor"},
                             Words{"explain", "laws", "--measure"},
                             Words{"calibrate", "--backend", "host"}}) {
    const cli::CallAnswer answer = ask(words);
    CHECK(answer.code == 2);
    CHECK(answer.reasons.find("a process of its own") != std::string::npos);
  }
}

TEST_CASE("a call reads the model and the plan that it brings") {
  const std::string config = R"({"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4,
                                 "vocab_size": 1000, "n_positions": 128})";
  const core::Call brings({{"mine/config.json", config}});
  const cli::CallAnswer plan =
      ask({"plan", "--model", "mine/config.json", "--gpus", "2", "--json"}, brings);
  REQUIRE(plan.code == 0);
  CHECK(core::parse_json(plan.out, "").value().at("model").at("name").as_string() == "mine");
  const core::Call second({{"plan.json", plan.out}});
  CHECK(ask({"simulate", "plan.json", "--json"}, second).code == 0);
  CHECK(ask({"simulate", "plan.json", "--json"}).code == 2);
}

TEST_CASE("a stopped call ends with code 130, and the next one is answered") {
  core::Call call;
  call.stop();
  const cli::CallAnswer answer = ask(kPlan, call);
  CHECK(answer.code == 130);
  CHECK(answer.reasons == "interrupted\n");
  CHECK(answer.out.empty());
  CHECK(ask(kPlan).code == 0);
}

TEST_CASE("a call that is stopped by its own progress ends") {
  core::Call call;
  const cli::CallAnswer answer =
      cli::answer_call({"sweep", "--model", "gpt2-124m", "--gpus", "1..64", "--json"}, call,
                       [&](std::string_view) { call.stop(); });
  CHECK(answer.code == 130);
}

TEST_CASE("calls at the same time answer as one after the other") {
  const std::string alone = timeless(ask(kPlan).out);
  std::vector<std::string> answers(4);
  {
    std::vector<std::jthread> threads;
    for (std::string& answer : answers)
      threads.emplace_back([&] { answer = timeless(ask(kPlan).out); });
  }
  for (const std::string& answer : answers) CHECK(answer == alone);
}

TEST_CASE("the options of every verb are told as JSON") {
  const core::Json root = core::parse_json(ask({"help", "--json"}).out, "").value();
  CHECK(root.at("schema").as_string() == "options/1");
  const core::Json& plan = root.at("verbs").items().front();
  CHECK(plan.at("name").as_string() == "plan");
  const auto takes = [&](std::string_view name) -> std::string {
    for (const core::Json& option : plan.at("options").items())
      if (option.at("name").as_string() == name) return option.at("takes").as_string();
    return "nothing";
  };
  CHECK(takes("--gpus") == "value");
  CHECK(takes("--pin") == "values");
  CHECK(takes("--allow-stale") == "flag");
}
