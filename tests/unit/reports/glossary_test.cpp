// `planner explain WORD`: every word that the code can print has an entry, and pictures are true.
#include "reports/glossary.hpp"

#include <algorithm>
#include <filesystem>
#include <set>

#include "core/file.hpp"
#include "hw_profiles/load.hpp"
#include "models/zoo.hpp"
#include "planner/evaluate/candidate_json.hpp"
#include "planner/search/search.hpp"
#include "planner/strategy/keys.hpp"
#include "reports/glossary_pictures.hpp"
#include "sim/program/collective.hpp"
#include "tests/catch.hpp"
#include "tests/unit/reports/sample.hpp"

using namespace reports;

namespace {

void demand(std::string_view kind, std::string_view word) {
  INFO(kind << ": " << word);
  CHECK(find_entry(kind, word) != nullptr);
}

void demand_members(std::string_view kind, const core::Json& object) {
  for (const core::Json::Member& m : object.members()) demand(kind, m.key);
}

std::vector<std::string> kinds_of(std::string_view typed) {
  const auto found = look_up(typed);
  std::vector<std::string> kinds;
  if (found.ok())
    for (const GlossaryEntry* e : *found) kinds.push_back(e->kind + ":" + e->word);
  return kinds;
}

using Kinds = std::vector<std::string>;

}  // namespace

TEST_CASE("every key of the strategy and each of its values has an entry") {
  for (const planner::StrategyKey& key : planner::strategy_keys()) {
    demand("strategy key", key.name);
    for (std::string_view value : key.choices)
      demand(key.name == "mesh_order" ? "strategy key" : key.name, value);
  }
  demand("offload", "none");
}

TEST_CASE("every key of the job and each of its values has an entry") {
  planner::Job job;
  job.precision = core::DType::f16;
  job.clip = 1;
  demand_members("job key", planner::to_json(job));
  for (const planner::Mode mode :
       {planner::Mode::train, planner::Mode::finetune, planner::Mode::inference})
    demand("mode", planner::name(mode));
  for (std::string_view recipe : planner::recipe_names()) demand("recipe", recipe);
  for (const planner::Optimizer& o : planner::optimizers()) demand("optimizer", o.name);
  for (std::string_view kind : planner::attention_kinds()) demand("attention", kind);
  for (std::string_view p : {"bf16", "fp16", "fp8", "nvfp4"}) {
    REQUIRE(planner::precision_from_name(p));
    demand("precision", p);
  }
  for (std::string_view q : {"none", "int8", "nf4", "two_factor"}) demand("quantization", q);
  for (const std::string& f : hw_profiles::framework_names()) demand("framework", f);
}

TEST_CASE("every figure of a candidate, of a search and of training has an entry") {
  const planner::Plan plan = reports_test::sample_plan();
  const planner::Candidate& c = *plan.chosen;
  demand_members("memory term", planner::to_json(c.memory));
  demand_members("time term", planner::to_json(c.time));
  demand_members("throughput", planner::to_json(c.throughput));
  demand_members("uncertainty", planner::to_json(c.uncertainty));
  demand_members("communication field", planner::to_json(c.communication).items()[0]);
  const core::Json file = core::parse_json(planner::to_json_text(plan), "plan").value();
  demand_members("search", file.at("search"));
  for (const core::Json::Member& m : file.at("cluster").members())
    if (m.key != "profile") demand("cluster", m.key);
  planner::Plan trained = plan;
  trained.training.emplace();
  demand_members("training", core::parse_json(planner::to_json_text(trained), "").value()
                                 .at("training"));
}

TEST_CASE("every transfer, collective and algorithm has an entry") {
  for (std::size_t i = 0; i < program::kTraffics; ++i)
    demand("traffic", program::name(static_cast<program::Traffic>(i)));
  for (int i = 0; i <= static_cast<int>(program::Collective::exchange); ++i)
    demand("collective", program::name(static_cast<program::Collective>(i)));
  demand("collective", "parameter_server.server");
  for (int i = 0; i <= static_cast<int>(program::Algorithm::pairwise); ++i)
    demand("algorithm", program::name(static_cast<program::Algorithm>(i)));
  for (const auto objective : {planner::Objective::time, planner::Objective::memory,
                               planner::Objective::cost, planner::Objective::energy})
    demand("objective", planner::name(objective));
}

TEST_CASE("every limit that refuses a strategy has an entry") {
  for (const auto& [model, gpus, gpu] :
       {std::tuple{"llama3-70b", 8, "rtx3090"}, std::tuple{"gpt2-124m", 6, "h100-sxm-80g"},
        std::tuple{"gpt3-175b", 1, "rtx3090"}}) {
    planner::Request request;
    request.model = models::find_model(model).value();
    request.gpus = gpus;
    request.profile = hw_profiles::find_profile(gpu).value();
    request.fewer = false;
    const auto plan = planner::make_plan(request);
    REQUIRE(plan.ok());
    for (const auto& [limit, count] : plan->rejected_per_limit) demand("limit", limit);
    for (const planner::Rejection& r : plan->rejected) demand("limit", r.limit);
  }
  demand("limit", "pins");
}

TEST_CASE("an entry is a few sentences, and its source is there") {
  const std::string root = std::string(PLANNER_GOLDEN) + "/../..";
  const std::string references = core::read_file(root + "/docs/references.md", 1 << 20).value();
  for (const GlossaryEntry& e : glossary()) {
    INFO(e.kind << ": " << e.word);
    CHECK(e.text.ends_with("."));
    CHECK(e.text.size() < 400);
    REQUIRE_FALSE(e.source.empty());
    if (e.source.front() != '[') CHECK(std::filesystem::exists(root + "/" + e.source));
    for (std::size_t at = e.source.find('['); at != std::string::npos;
         at = e.source.find('[', at)) {
      const std::size_t end = e.source.find(']', at);
      CHECK(references.find("- " + e.source.substr(at, end - at + 1)) != std::string::npos);
      at = end;
    }
  }
}

TEST_CASE("a word is found as people type it, with all its meanings") {
  CHECK(kinds_of("zero3") == Kinds{"sharding:zero3"});
  CHECK(kinds_of("ZeRO-3") == Kinds{"sharding:zero3"});
  CHECK(kinds_of("zero=3") == Kinds{"sharding:zero3"});
  CHECK(kinds_of("checkpoint=every_k(2)") == Kinds{"checkpoint:every_k"});
  CHECK(kinds_of("tp") == Kinds{"strategy key:tensor", "traffic:tensor"});
  CHECK(kinds_of("dp=8") == Kinds{"strategy key:data"});
  CHECK(kinds_of("--seq") == Kinds{"job key:seq_len"});
  CHECK(kinds_of("memory.live") == Kinds{"memory term:live"});
  CHECK(kinds_of("optimizer").size() == 4);  // job key, offload, memory and time
  CHECK(kinds_of("reduce scatter") == Kinds{"collective:reduce_scatter"});
  const auto unknown = look_up("pointwize");
  REQUIRE_FALSE(unknown.ok());
  CHECK(reports_test::has(core::to_text(unknown.problems()), "did you mean pointwise?"));
  for (const GlossaryEntry& e : glossary()) CHECK(look_up(e.word).ok());
}

TEST_CASE("a schedule's picture has every pass once, and the bubble that its formula says") {
  constexpr std::int64_t kStages = 4, kMicroBatches = 8;
  const auto idle = [&](planner::Schedule schedule, std::int64_t chunks) {
    planner::Strategy s;
    s.pipeline = kStages;
    s.schedule = schedule;
    s.virtual_stages = chunks;
    const auto played = played_passes(s, kMicroBatches);
    std::int64_t end = 0, busy = 0;
    for (const auto& row : played) {
      std::set<std::tuple<program::PassKind, int, std::int64_t>> seen;
      std::int64_t units = 0;
      for (const PlayedPass& p : row) {
        CHECK(seen.insert({p.pass.kind, p.pass.chunk, p.pass.micro_batch}).second);
        units += p.units;
        end = std::max(end, p.start + p.units);
      }
      busy = units;
      CHECK(units == 3 * chunks * kMicroBatches);  // forward 1, backward 2
    }
    return end - busy;
  };
  CHECK(idle(planner::Schedule::gpipe, 1) == 3 * (kStages - 1));
  CHECK(idle(planner::Schedule::one_f_one_b, 1) == 3 * (kStages - 1));
  // In units of a chunk, of which a rank has two: half the bubble of 1f1b.
  CHECK(idle(planner::Schedule::interleaved, 2) == 3 * (kStages - 1));
  CHECK(idle(planner::Schedule::zb_h1, 1) == kStages - 1);     // (p - 1) (F + B - W), all 1
  CHECK(idle(planner::Schedule::naive, 1) > 3 * (kStages - 1));
}

TEST_CASE("every schedule has a picture, and sharding a table of what is kept") {
  for (const planner::StrategyKey& key : planner::strategy_keys()) {
    if (key.name != "schedule" && key.name != "sharding") continue;
    for (std::string_view value : key.choices) {
      INFO(value);
      CHECK_FALSE(picture_of(key.name, value).empty());
    }
  }
  const std::string picture = picture_of("schedule", "1f1b");
  CHECK(reports_test::has(picture, "  rank 3 ......F1B1==F2B2==F3B3==F4B4==............\n"));
  CHECK(reports_test::has(picture_of("sharding", "zero3"), "sharding=zero3"));
  CHECK(picture_of("time term", "bubble").empty());
}
