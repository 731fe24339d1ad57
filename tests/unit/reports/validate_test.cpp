// Published runs: what a row becomes, how bad rows are told, and the arithmetic of the scores.

#include "reports/validate/validation.hpp"

#include <algorithm>

#include "core/json.hpp"
#include "hw_profiles/load.hpp"
#include "models/layer_kinds.hpp"
#include "reports/validate/neighbours.hpp"
#include "tests/catch.hpp"

namespace {

using namespace reports::validation;
using planner::Checkpoint;
using planner::Schedule;

const std::string kHeader =
    "id,dataset,group,framework,family,layers,hidden,heads,ffn_hidden,ffn,vocab,tied_embeddings,"
    "seq_len,gpu,gpus,data,tensor,sequence_parallel,pipeline,sharding,shard_group,micro_batch,"
    "global_batch,precision,checkpoint,attention,schedule,step_seconds,fits\n";
// What the rows below share: a small GPT on eight A100s.
const std::string kModel = ",gpt,4,256,8,1024,gelu,1000,1,128,a100-sxm-80g,8,";

std::string row(const std::string& id, const std::string& strategy, const std::string& measured) {
  return id + ",set,pair,megatron" + kModel + strategy + ",bf16,full,flash2," + measured + "\n";
}
// data, tensor, sequence_parallel, pipeline, sharding, shard_group, micro_batch, global_batch
const std::string kPlain = "8,1,0,1,none,1,2,32";

Rows read(const std::string& text) {
  const auto table = core::parse_csv(text, "runs.csv");
  REQUIRE(table.ok());
  return read_rows(*table);
}

Predicted predicted(double measured, double step, bool fits) {
  Predicted p;
  p.row.group = "g";
  p.row.step = core::Seconds(measured);
  p.candidate.time.step = core::Seconds(step);
  p.candidate.memory.usable = core::Bytes(10);
  p.candidate.memory.worst.device = core::Bytes(fits ? 10 : 11);
  return p;
}

}  // namespace

TEST_CASE("a row becomes the model, job and strategy that it states") {
  const Rows rows = read(kHeader + row("a", "2,2,1,2,zero1,2,4,32", "zb1p,1.5,1"));
  REQUIRE(rows.rows.size() == 1);
  const Row& r = rows.rows.front();
  CHECK(r.model.layers == 4);
  CHECK(r.model.positions == 128);
  CHECK(r.job.framework == "megatron");
  CHECK(r.job.global_batch == 32);
  CHECK(r.strategy.sequence_parallel);
  CHECK(r.strategy.schedule == Schedule::zb_h1);
  CHECK(r.strategy.checkpoint == Checkpoint::every_k);
  CHECK(r.strategy.checkpoint_every == 1);
  CHECK(r.strategy.grad_accum == 4);  // 32 / (4 x 2)
  CHECK(r.step->value() == 1.5);
  CHECK(*r.fits);
}

TEST_CASE("a row's date is what its source names, alone") {
  const auto date = [](const std::string& source) {
    const std::string text = "source," + kHeader + source + "," + row("a", kPlain, "none,1,");
    const Rows rows = read(text);
    REQUIRE(rows.rows.size() == 1);
    return rows.rows.front().date;
  };
  CHECK(date("docs/h100_202412_x.md") == "2024-12");
  CHECK(date("docs/x_2025-06.md") == "2025-06");
  CHECK(date("docs/x (2024)") == "2024");
  CHECK(date("docs/x_2024_03.md") == "2024");
  for (const char* none : {"x@b20241", "arXiv 1205.2024x", "2050-01", "202413", "run 20241201", ""})
    CHECK(date(none) == "");
}

TEST_CASE("a framework's releases before a date behave as they did") {
  const auto kept = [](const char* as_of) {
    auto profile = hw_profiles::find_profile("h100-sxm-80g");
    REQUIRE(profile.ok());
    REQUIRE(hw_profiles::use_framework(*profile, "fsdp2", "framework", as_of).ok());
    return profile->framework.kept_logits_compiled;
  };
  CHECK(kept("2024-12") > kept("2025-04"));
  CHECK(kept("2024") == kept("2024-12"));
  CHECK(kept("2025-04") == kept(""));
}

TEST_CASE("keys without effect are left out") {
  const Rows rows = read(kHeader + row("a", "8,1,1,1,zero3,1,2,32", "1f1b,1,"));
  REQUIRE(rows.rows.size() == 1);
  const planner::Strategy& s = rows.rows.front().strategy;
  CHECK_FALSE(s.sequence_parallel);
  CHECK(s.sharding == planner::Sharding::none);
  CHECK(s.schedule == Schedule::none);
}

TEST_CASE("an unknown framework takes the generic one and keeps its name") {
  std::string text = kHeader + row("a", kPlain, "none,1,");
  text.replace(text.find("megatron"), 8, "colossal");
  const Rows rows = read(text);
  REQUIRE(rows.rows.size() == 1);
  CHECK(rows.rows.front().job.framework == "generic");
  CHECK(rows.rows.front().framework == "colossal");
}

TEST_CASE("where each adapter is a unit of its own, weights are not gathered ahead") {
  std::string text = row("a", "8,1,0,1,zero3,8,2,32", "none,1.5,1");
  text.replace(text.find("gpt,"), 4, "llama,");
  text.replace(text.find("gelu"), 4, "swiglu");
  const Rows rows = read(kHeader + text);
  REQUIRE(rows.rows.size() == 1);
  Predictor predictor;
  for (const std::string framework : {"fsdp1", "fsdp2"})
    for (const std::int64_t rank : {0, 8}) {
      Row r = rows.rows.front();
      r.job.framework = framework;
      r.job.lora_rank = rank;
      const auto ready = predictor.prepare(r);
      REQUIRE(ready.ok());
      CHECK(ready->strategy.overlap == (rank == 0 || framework == "fsdp2"));
    }
}

TEST_CASE("bad rows are named by line and column, and the rest is scored") {
  const std::string text = "\xEF\xBB\xBF" + kHeader +
                           row("text", "eight,1,0,1,none,1,2,32", "none,1,") +
                           row("degrees", "4,1,0,1,none,1,2,32", "none,1,") +
                           row("good", kPlain, "none,1,") + "short,row\n";
  const auto validation = validate(text, "runs.csv", {});
  REQUIRE(validation.ok());
  CHECK(validation->scores.predicted == 1);
  CHECK(validation->scores.rows == 4);
  const std::string problems = core::to_text(validation->problems);
  INFO(problems);
  CHECK(problems.find("runs.csv:2 column data") != std::string::npos);
  CHECK(problems.find("runs.csv:3 column gpus") != std::string::npos);
  CHECK(problems.find("runs.csv:5: expected 29 fields") != std::string::npos);
}

TEST_CASE("validation tells how far it is") {
  Request request;
  std::vector<std::string> told;
  request.progress = [&](std::string_view done) { told.emplace_back(done); };
  REQUIRE(validate(kHeader + row("good", kPlain, "none,1,"), "runs.csv", request).ok());
  CHECK(told == std::vector<std::string>{"runs.csv: 0 of 1 runs predicted"});
}

TEST_CASE("a file without a column it needs is refused, and an unknown GPU skips its row") {
  CHECK_FALSE(validate("id,gpu\n1,2\n", "runs.csv", {}).ok());
  std::string text = kHeader + row("a", kPlain, "none,1,");
  text.replace(text.find("a100-sxm-80g"), 12, "a101-sxm-80g");
  const auto validation = validate(text, "runs.csv", {});
  REQUIRE(validation.ok());
  REQUIRE(validation->scores.skipped.size() == 1);
  CHECK(validation->scores.skipped.front().reason.find("a101") != std::string::npos);
  CHECK(core::to_text(validation->problems).find("runs.csv:2 column gpu") != std::string::npos);
}

TEST_CASE("left-out datasets are not scored") {
  const std::string text = kHeader + row("a", kPlain, "none,1,");
  const auto validation = validate(text, "runs.csv", {.leave_out = {"set"}, .overrides = {}});
  REQUIRE(validation.ok());
  CHECK(validation->scores.predicted == 0);
}

TEST_CASE("a slower profile predicts a longer step") {
  const std::string text = kHeader + row("a", kPlain, "none,1,");
  const auto at = [&](const std::string& efficiency) {
    Request request;
    request.overrides = {{"gpu.gemm_sustained", efficiency, "a100-sxm-80g"},
                         {"framework.kernel_submit", "1 ns", ""}};
    return validate(text, "runs.csv", request)->scores.per_row.front().predicted;
  };
  CHECK(at("0.1") > 1.5 * at("0.8"));
}

TEST_CASE("errors are means of fractions, with their sign in the bias") {
  // -10 %, +20 %, +30 %: mean 20 %, bias 13.3 %, median 20 %.
  const ErrorScore s = error_score({-0.1, 0.2, 0.3});
  CHECK(s.mape == Approx(0.2));
  CHECK(s.bias == Approx(0.4 / 3));
  CHECK(s.median == Approx(0.2));
  CHECK(s.most == Approx(0.3));
}

TEST_CASE("regret is what the row predicted fastest loses to the fastest measured") {
  // Predicted to fit and fastest: the second, 12 s against 10 s. The first is predicted faster but
  // not to fit.
  const Scores s = score(
      {predicted(10, 1, false), predicted(12, 2, true), predicted(15, 3, true)}, {});
  CHECK(s.ranking.groups == 1);
  CHECK(s.ranking.mean_regret == Approx(0.2));
  CHECK(s.ranking.kendall_tau == Approx(1));
  REQUIRE(s.groups.size() == 1);
  const GroupScore& g = s.groups.front();
  CHECK(g.rows == 3);
  CHECK(g.regret == Approx(0.2));
  CHECK(g.rank == 2);
  CHECK(g.pick_error == Approx(2.0 / 12 - 1));
  CHECK(g.best_error == Approx(1.0 / 10 - 1));
  CHECK_FALSE(g.best_in_interval);
  // Two rows are no group.
  CHECK(score({predicted(10, 1, true), predicted(12, 2, true)}, {}).ranking.groups == 0);
}

TEST_CASE("a group names the term that made its pick, and whether its best was thought possible") {
  std::vector<Predicted> rows{predicted(10, 12, true), predicted(12, 11, true),
                              predicted(15, 20, true)};
  rows[0].candidate.time.compute = core::Seconds(4);
  rows[0].candidate.time.bubble = core::Seconds(8);
  rows[1].candidate.time.compute = core::Seconds(5);
  rows[1].candidate.time.bubble = core::Seconds(6);  // 2 s apart, where computing is 1
  rows[0].candidate.uncertainty = {.step_low = core::Seconds(9), .step_high = core::Seconds(16)};
  const Scores s = score(rows, {});
  REQUIRE(s.groups.size() == 1);
  CHECK(s.groups.front().differ_in == "bubble");
  CHECK(s.groups.front().best_in_interval);
  // Where the pick is the fastest, nothing made it differ.
  rows[0].candidate.time.step = core::Seconds(10);
  CHECK(score(rows, {}).groups.front().differ_in.empty());
  CHECK(score(rows, {}).groups.front().regret == 0);
}

TEST_CASE("the machine form names every score of validate/1") {
  const auto validation = validate(kHeader + row("a", kPlain, "none,1,1"), "runs.csv", {});
  REQUIRE(validation.ok());
  const auto json = core::parse_json(to_json_text(validation->scores), "scores");
  REQUIRE(json.ok());
  CHECK(json->at("schema").as_string() == "validate/1");
  for (const char* key : {"rows", "predicted", "skipped", "time", "memory", "memory_device", "fit",
                          "ranking", "groups", "by", "per_row"})
    CHECK(json->find(key) != nullptr);
  CHECK(json->at("per_row").size() == 2);
}

TEST_CASE("shipped frameworks are named for software, never for a file of runs") {
  for (const std::string& name : hw_profiles::framework_names())
    for (const char* dataset : {"vtrain", "aleph", "foundry", "bloom", "qlora", "simumax", "dgxc",
                                "torchtitan", "korthikanti", "bubble"})
      CHECK(name.find(dataset) == std::string::npos);
}

TEST_CASE("an error is told apart by the runs beside it") {
  std::vector<Predicted> rows;
  for (const std::int64_t micro_batch : {1, 2, 4, 8}) {
    Predicted p = predicted(1, 1, true);
    p.row.strategy.micro_batch = micro_batch;
    rows.push_back(std::move(p));
  }
  rows.back().row.step = core::Seconds(2);  // measured twice as long as predicted
  const auto errors = time_errors(rows);
  CHECK(explanation_of(3, rows, errors).starts_with("this run or its micro-batch"));
  for (Predicted& p : rows) p.row.step = core::Seconds(2);
  CHECK(explanation_of(3, rows, time_errors(rows)).starts_with("systematic"));
  rows.resize(1);
  CHECK(explanation_of(0, rows, time_errors(rows)) == "no other run of its kind to compare with");
}

namespace {

// One row with further columns: their names, and what the row says there.
Rows read_with(const std::string& columns, const std::string& cells, std::string text = "") {
  if (text.empty()) text = row("a", kPlain, "none,1,1");
  return read(columns + "," + kHeader + cells + "," + text);
}

}  // namespace

TEST_CASE("a mixture is read with its experts and the width of its heads") {
  const Rows rows = read_with("experts,experts_per_token,expert_ffn,expert_parallel,head_dim",
                              "16,2,512,4,64");
  REQUIRE(rows.rows.size() == 1);
  const Row& r = rows.rows.front();
  CHECK(r.model.variants.experts == 16);
  CHECK(r.model.variants.experts_per_token == 2);
  CHECK(r.model.ffn_hidden == 512);
  CHECK(r.model.head_dim == 64);
  CHECK(r.strategy.expert == 4);
  CHECK(read_with("head_dim", "32").rows.front().model.head_dim == 0);  // 8 heads of 256: as usual
  const std::string columns = "experts,experts_per_token,expert_parallel,a2a_overlap";
  CHECK(read_with(columns, "16,2,4,1").rows.front().strategy.expert_overlap);
  CHECK_FALSE(read_with(columns, "16,2,4,0").rows.front().strategy.expert_overlap);
  const std::string tensor = "experts,experts_per_token,expert_parallel,expert_tensor_parallel";
  const auto whole = [&](const char* cells) {
    const std::string two = row("a", "4,2,1,1,none,1,2,32", "none,1,1");
    return read_with(tensor, cells, two).rows.front().strategy.expert_tensor;
  };
  CHECK(whole("16,2,4,1") == 1);
  CHECK(whole("16,2,4,2") == 0);
  CHECK(whole("16,2,4,") == 0);
  CHECK(whole("16,2,8,") == 1);        // which do not divide 4 data ranks
}

TEST_CASE("dense layers before mixtures are read as a kind of their own") {
  const Rows rows = read_with("experts,experts_per_token,expert_ffn,dense_layers", "16,2,512,1");
  REQUIRE(rows.rows.size() == 1);
  const models::ModelSpec& m = rows.rows.front().model;
  CHECK(models::kinds_text(m) == "1 dense, " + std::to_string(m.layers - 1) + " mixture");
  CHECK(m.kinds.front().ffn_hidden == m.ffn_hidden);
  CHECK(m.kinds.back().ffn_hidden == 512);
}

TEST_CASE("layers are read as their columns say: windows in turn, shared experts, latents") {
  std::string oss = row("a", kPlain, "none,1,1");
  oss.replace(oss.find(",gpt,"), 5, ",gpt_oss,");
  const Rows turns = read_with("experts,experts_per_token,expert_ffn,sliding_window",
                               "16,2,512,128 on every 2nd layer", oss);
  REQUIRE(turns.rows.size() == 1);
  const models::ModelSpec& model = turns.rows.front().model;
  REQUIRE(model.kinds.size() == 2);
  CHECK(model.kinds[0].variants.window == 128);
  CHECK(model.kinds[1].variants.window == 0);
  CHECK(model.kinds[1].variants.sinks);
  CHECK(model.kinds[1].variants.expert_bias);
  CHECK(model.runs.front().kinds == std::vector<int>{0, 1});
  const Rows shared = read_with(
      "experts,experts_per_token,expert_ffn,shared_experts,shared_expert_ffn,mtp_layers",
      "16,2,512,2,256,1");
  REQUIRE(shared.rows.size() == 1);
  CHECK(shared.rows.front().model.variants.shared_ffn == 512);
  CHECK(shared.rows.front().model.mtp_layers == 1);
  CHECK(shared.rows.front().job.mtp_layers == 1);
  const Rows latent = read_with("attention_kind,q_lora_rank,kv_lora_rank,qk_nope,qk_rope,v_head",
                                "mla,64,32,128,64,128");
  REQUIRE(latent.rows.size() == 1);
  CHECK(latent.rows.front().model.head_dim == 192);
  CHECK(latent.rows.front().model.variants.kv_rank == 32);
}

TEST_CASE("what no graph here has is named and left out") {
  const Rows latent = read_with("attention_kind", "mla");
  REQUIRE(latent.skipped.size() == 1);
  CHECK(latent.skipped.front().reason.find("kv_lora_rank") != std::string::npos);
}

TEST_CASE("published runs of no framework ran in a plain torch loop, or in the Trainer") {
  std::string plain = row("a", kPlain, "none,1,1");
  plain.replace(plain.find("megatron"), 8, "native");
  CHECK(read_with("note", "", plain).rows.front().job.framework == "torch");
  CHECK(read_with("framework_version", "transformers 4.38", plain).rows.front().job.framework ==
        "trainer");
  std::string hooked = row("a", kPlain, "none,1,1");
  hooked.replace(hooked.find("megatron"), 8, "deepspeed");
  CHECK(read_with("framework_version,assumed", "transformers 4.38,ZeRO-3 config", hooked)
            .rows.front().job.framework == "trainer_zero3");
  CHECK(read_with("assumed", "ZeRO-3 config", hooked).rows.front().job.framework ==
        "deepspeed_zero3");
}

TEST_CASE("a published run may have computed some layers again") {
  const auto partly = [](const std::string& layers) {
    std::string text = row("a", kPlain, "none,1,1");
    text.replace(text.find(",full,"), 6, ",full_part,");
    return read_with("recompute_modules", layers, text);
  };
  const Rows rows = partly("first 3 layers of each stage");
  REQUIRE(rows.rows.size() == 1);
  CHECK(rows.rows.front().strategy.checkpoint == planner::Checkpoint::first_k);
  CHECK(rows.rows.front().strategy.checkpoint_every == 3);
  CHECK(partly("some layers").rows.empty());
}

TEST_CASE("a published mixture says how its tokens travel") {
  const auto dispatch = [](const char* said) {
    return read_with("experts,experts_per_token,expert_parallel,moe_dispatcher",
                     std::string("16,2,4,") + said).rows.front().strategy.expert_dispatch;
  };
  CHECK(dispatch("hybridep") == planner::ExpertDispatch::deepep);
  CHECK(dispatch("deepep") == planner::ExpertDispatch::deepep);
  CHECK(dispatch("alltoall") == planner::ExpertDispatch::all_to_all);
}

TEST_CASE("a run's measured network replaces its profile's") {
  std::string far = row("a", "16,1,0,1,none,1,2,64", "none,1,1");
  far.replace(far.find(",8,16,1"), 7, ",16,16,1");
  const std::string columns =
      "gpus_per_node,allreduce_busbw_gbs,allgather_busbw_gbs,reducescatter_busbw_gbs";
  const Rows plain = read_with("gpus_per_node", "8", far);
  const Rows slow = read_with(columns, "8,20,10,12", far);
  REQUIRE(slow.rows.size() == 1);
  CHECK(slow.rows.front().gather_gbs == 11);
  Predictor predictor;
  const auto step = [&](const Rows& rows) {
    return predictor.predict(rows.rows.front())->candidate.time.step;
  };
  CHECK(step(slow) > step(plain));
  CHECK(predictor.profile(slow.rows.front()).node.rank_wait.has_value());
  CHECK_FALSE(predictor.profile(plain.rows.front()).node.rank_wait.has_value());
}
