// torchtitan's configuration in Python.
#include <fmt/format.h>

#include "planner/strategy/keys.hpp"
#include "reports/emit/emit.hpp"
#include "tests/unit/imports/imported.hpp"
#include "tests/unit/reports/sample.hpp"

using namespace imports_test;

namespace {

// A file with one function, whose Trainer.Config has these parts and is changed by `then`.
std::string file_of(const std::string& parts, const std::string& then = "",
                    const std::string& model = "\"8B\"") {
  return "from torchtitan.config import CompileConfig, ParallelismConfig, TrainingConfig\n"
         "from torchtitan.distributed.activation_checkpoint import FullAC, SelectiveAC\n"
         "from torchtitan.models.llama3 import model_registry\n"
         "from torchtitan.trainer import Trainer\n\n"
         "def mine() -> Trainer.Config:\n    config = Trainer.Config(\n"
         "        model_spec=model_registry(" +
         model + "),\n" + parts + "    )\n" + then + "    return config\n";
}

Given asked(std::optional<std::int64_t> gpus = {}, std::map<std::string, std::string> said = {},
            const std::string& config = "", const std::string& model = "") {
  return {
      .gpus = gpus, .vocab = {}, .model = model, .variables = std::move(said), .config = config};
}
Setup main_branch(const std::string& text, const Given& given = {}) {
  return imported(text, "mine.py", given);
}
bool titan_refuses(const std::string& text, std::initializer_list<const char*> words,
                   const Given& given = {}) {
  return refuses(tried(text, "mine.py", given), words);
}
std::string parallelism_of(const std::string& values) {
  return "        parallelism=ParallelismConfig(" + values + "),\n";
}
std::string training_of(const std::string& values) {
  return "        training=TrainingConfig(" + values + "),\n";
}

}  // namespace

TEST_CASE("a configuration that says nothing has the defaults of torchtitan's main branch") {
  const Setup setup = main_branch(file_of(""), asked(8));
  CHECK(setup.formats == std::vector<std::string>{"torchtitan_python"});
  CHECK(setup.model == "llama3-8b");
  for (const char* pin : {"data=8", "tensor=1", "pipeline=1", "context=1", "sharding=zero3",
                          "micro_batch=8", "checkpoint=selective_op", "loss_chunks=1"})
    CHECK((pins(setup, pin) ? "" : pin) == std::string());
  CHECK(option(setup, "--seq") == "2048");
  CHECK(option(setup, "--global-batch") == "64");  // 16384 tokens / 2048 x 8 ranks
  CHECK(option(setup, "--precision") == "bf16");
  CHECK(option(setup, "--clip") == "1");
  CHECK(option(setup, "--optimizer") == "adamw");
  CHECK(names(setup.not_read, "training.disable_cuda_graphs", "CUDA graphs"));
  CHECK_FALSE(main_branch(file_of("")).gpus.has_value());
}

TEST_CASE("what torchtitan's configuration states becomes the same question") {
  const Setup setup = main_branch(file_of(
      training_of("num_tokens_per_microbatch_per_dp_rank=2 * 4096, max_context_length=4096, "
                  "num_tokens_per_train_step=64 * 4096, steps=10, max_norm=0.5, "
                  "disable_cuda_graphs=True, enable_cpu_offload=True") +
      parallelism_of("data_parallel_replicate_degree=2, data_parallel_shard_degree=4, "
                     "tensor_parallel_degree=2, fsdp_reshard_after_forward=\"never\"") +
      "        compile=CompileConfig(enable=True, enable_async_tensor_parallel=True),\n"
      "        loss=ChunkedLossWrapper.Config(num_chunks=4),\n"
      "        optimizer=default_adamw(lr=1e-4),\n"
      "        dataloader=GrainDataLoader.Config(dataset=DATASETS[\"c4\"]),\n"
      "        activation_checkpoint=FullAC.Config(preserve_rng_state=False),\n"));
  CHECK(setup.gpus == 16);
  for (const char* pin : {"data=8", "tensor=2", "sharding=zero2", "shard_group=4", "micro_batch=2",
                          "checkpoint=every_k(1)", "tp_overlap=true", "sequence_parallel=true",
                          "loss_chunks=4", "offload=params"})
    CHECK((pins(setup, pin) ? "" : pin) == std::string());
  CHECK(option(setup, "--global-batch") == "64");
  CHECK(option(setup, "--clip") == "0.5");
  CHECK(names(setup.not_read, "compile.enable", "faster than planned"));
  CHECK(names(setup.not_read, "activation_checkpoint.preserve_rng_state"));
  CHECK(setup.not_read.size() == 2);
  for (const char* key :
       {"training.steps", "optimizer.lr", "dataloader", "dataloader.dataset"})
    CHECK((names(setup.without_influence, key) ? "" : key) == std::string());
}

TEST_CASE("values of lists, None, and parts that are changed later are as Python has them") {
  const Setup setup = main_branch(
      file_of(parallelism_of("pipeline_parallel_degree=2, data_parallel_shard_degree=1"),
              "    config.activation_checkpoint = None\n"
              "    config.parallelism.pipeline_parallel_schedule = \"Interleaved1F1B\"\n"
              "    config.parallelism.module_fqns_per_model_part = [\n"
              "        [\"tok_embeddings\", \"layers.0\"], [\"layers.1\", \"layers.2\"],\n"
              "        [\"layers.3\"], [\"norm\", \"lm_head\"]]\n"
              "    config.parallelism.num_pp_microbatches = 8\n"
              "    config.training.max_context_length = 4096\n"));
  for (const char* pin : {"pipeline=2", "schedule=interleaved", "virtual_stages=2",
                          "stages=1,2,1,0", "checkpoint=none", "micro_batch=4"})
    CHECK((pins(setup, pin) ? "" : pin) == std::string());
  CHECK(option(setup, "--global-batch") == "32");  // 4 samples x 8 micro-batches x 1 rank
  CHECK(names(setup.read, "parallelism.num_pp_microbatches", "grad_accum"));
}

TEST_CASE("a pipeline that torchtitan fills several times in a step is named") {
  const std::string staged = parallelism_of(
      "pipeline_parallel_degree=2, num_pp_microbatches=4, "
      "data_parallel_shard_degree=2");
  const auto of = [&](const char* step) {
    return file_of(staged + training_of(fmt::format("num_tokens_per_microbatch_per_dp_rank=2048, "
                                                    "num_tokens_per_train_step={} * 2048",
                                                    step)));
  };
  CHECK_FALSE(names(main_branch(of("8")).not_read, "parallelism.num_pp_microbatches"));
  CHECK(names(main_branch(of("24")).not_read, "parallelism.num_pp_microbatches",
              "3 times in a step"));
  CHECK(titan_refuses(of("12"),
                      {"mine.py:10", "num_tokens_per_train_step", "a multiple of 8 samples"}));
}

TEST_CASE("converters say in which types products are, and what is not planned is named") {
  const auto converted = [](const std::string& list) {
    return main_branch(file_of("", "", "\"8B\", converters=[" + list + "]"));
  };
  const Setup f8 = converted("Float8LinearConverter.Config(filter_fqns=[\"lm_head\"])");
  CHECK(option(f8, "--precision") == "fp8");
  CHECK(option(f8, "--fp8-scaling") == "rowwise");
  CHECK(names(f8.not_read, "model_spec.converters.Float8LinearConverter.filter_fqns", "16 bits"));
  CHECK(option(converted("MXFP8LinearConverter.Config()"), "--fp8-scaling") == "mxfp8");
  const Setup f4 = converted("NVFP4LinearConverter.Config(fqns=tail(3))");
  CHECK(option(f4, "--precision") == "bf16");
  CHECK(names(f4.not_read, "model_spec.converters", "not planned"));
  CHECK_FALSE(names(f4.read, "model_spec.converters"));
  const Setup both = converted(
      "Float8LinearConverter.Config(recipe_name=\"rowwise_with_gw_hp\"), "
      "LoRAConverter.Config(rank=8)");
  CHECK(option(both, "--precision") == "fp8");
  CHECK(names(both.not_read, "model_spec.converters", "not planned"));
  CHECK(names(both.not_read, "model_spec.converters.Float8LinearConverter.recipe_name",
              "gradients stay in 16 bits"));
}

TEST_CASE("optimizers by groups of weights are read by their names") {
  const auto of = [](const std::string& second) {
    return main_branch(
        file_of("        optimizer=OptimizersContainer.Config(param_groups=[\n"
                "            ParamGroupConfig(pattern=r\"a\\.\", optimizer_name=\"Adam\"),\n"
                "            ParamGroupConfig(pattern=r\".*\", optimizer_name=\"" +
                second + "\", optimizer_kwargs={\"lr\": 1e-3})]),\n"));
  };
  CHECK(option(of("Adam"), "--optimizer") == "adam");
  CHECK(option(of("AdamW"), "--optimizer") == "adamw");
  CHECK(of("AdamW").not_read.size() == 1);  // the CUDA graphs
}

TEST_CASE("which function is meant is said by --config where several return a configuration") {
  std::string text =
      "from torchtitan.models.llama3 import model_registry\n"
      "def _part(size, length=4096):\n"
      "    return Trainer.Config(model_spec=model_registry(size), "
      "training=TrainingConfig(max_context_length=length))\n"
      "def small():\n    return _part(\"8B\")\n"
      "def large():\n    config = _part(\"70B\", length=8192)\n    return config\n"
      "def length():\n    return 3\n";
  const Setup large = main_branch(text, asked({}, {}, "large"));
  CHECK(large.model == "llama3-70b");
  CHECK(option(large, "--seq") == "8192");
  CHECK(main_branch(text, asked({}, {}, "small")).model == "llama3-8b");
  CHECK(titan_refuses(text, {"mine.py", "2 of them: small, large;", "--config NAME"}));
  CHECK(titan_refuses(text, {"--config", "smal", "did you mean small?"}, asked({}, {}, "smal")));
  CHECK(titan_refuses(text, {"mine.py:9 length", "Trainer.Config(...)", "found 3"},
                      asked({}, {}, "length")));
  CHECK(titan_refuses("x = Trainer.Config()\n", {"a function that returns", "none"}));
  for (int i = 0; i < 20; ++i) text += fmt::format("def more{}():\n    return small()\n", i);
  CHECK(titan_refuses(text, {"22 of them", "more9 and 10 more"}));
  CHECK(refuses(tried("[training]\nseq_len = 1\n", "job.toml", asked({}, {}, "large")),
                {"--config", "Python"}));
}

TEST_CASE("only the function that is meant has changed values that several functions share") {
  const std::string text =
      "from torchtitan.models.llama3 import model_registry\n"
      "LENGTH = TrainingConfig(max_context_length=1024)\n"
      "def mine():\n    LENGTH.max_context_length = 2 * LENGTH.max_context_length\n"
      "    return Trainer.Config(model_spec=model_registry(\"8B\"), training=LENGTH)\n";
  CHECK(option(main_branch(text), "--seq") == "2048");
}

TEST_CASE("the model is named by its module and size, or asked for") {
  const std::string own =
      "from . import model_registry\ndef NAME():\n"
      "    return Trainer.Config(model_spec=model_registry(\"4B\"))\n";
  const auto named = [&](std::string function, const std::string& file) {
    std::string text = own;
    text.replace(text.find("NAME"), 4, function);
    return tried(text, file);
  };
  CHECK(named("f", "models/qwen3/config_registry.py")->model == "qwen3-4b");
  CHECK(named("sft_qwen3_4b", "config_registry.py")->model == "qwen3-4b");
  CHECK(refuses(named("f", "x.py"), {"x.py:3 model_registry", "--model"}));
  CHECK(refuses(named("qwen3_5_4b", "x.py"), {"qwen3_5 4B", "--model"}));
  CHECK(titan_refuses(file_of("", "", "\"debugmodel\""),
                      {"mine.py:8", "llama3 debugmodel", "--model"}));
  const Setup asked_for =
      main_branch(file_of("", "", "\"debugmodel\""), asked(8, {}, "", "qwen3-8b"));
  CHECK(asked_for.model == "qwen3-8b");
  CHECK(names(asked_for.not_read, "model_spec.flavor", "--model"));
  CHECK(
      titan_refuses(file_of("", "    config.model_spec = make()\n"), {"model_spec", "make(...)"}));
  CHECK(main_branch(file_of("", "    config.model_spec = make()\n"), asked(8, {}, "", "qwen3-8b"))
            .model == "qwen3-8b");
}

TEST_CASE("an unknown value that the plan needs is a problem, and any other is named") {
  const std::string text =
      file_of(training_of("max_context_length=int(os.environ[\"LENGTH\"]), steps=count()"),
              "    if fast:\n        config.parallelism.tensor_parallel_degree = 2\n");
  CHECK(titan_refuses(text, {"mine.py:9 training.max_context_length", "int(...)",
                             "--var training.max_context_length=VALUE",
                             "mine.py:12 parallelism.tensor_parallel_degree"}));
  const Setup setup = main_branch(text, asked({}, {{"training.max_context_length", "4096"},
                                                   {"parallelism.tensor_parallel_degree", "2"}}));
  CHECK(option(setup, "--seq") == "4096");
  CHECK(pins(setup, "tensor=2"));
  CHECK(names(setup.without_influence, "training.steps"));
  CHECK(names(main_branch(file_of("", "    tune(config)\n")).not_read, "tune(config)",
              "may change the configuration"));
  CHECK(titan_refuses(file_of("        training=short(),\n"), {"training", "TrainingConfig(...)"}));
  CHECK(titan_refuses(file_of(training_of("**values")), {"training", "write them out"}));
  CHECK(titan_refuses(file_of(training_of("max_context_length=3000")), {"a multiple of 3000"}));
  CHECK(titan_refuses(file_of("        activation_checkpoint=Own.Config(),\n"),
                      {"activation_checkpoint", "SelectiveAC.Config", "Own.Config"}));
  CHECK(names(
      main_branch(file_of("        activation_checkpoint=MemoryBudgetAC.Config(),\n")).not_read,
      "activation_checkpoint", "compiler decides"));
}

TEST_CASE("a configuration that stands for far more than it holds is refused in little time") {
  std::string lists = "A0 = [X()]\nD0 = {}\nO0 = Y.Config()\n";
  for (int i = 0; i < 15; ++i)
    lists += fmt::format(
        "A{1} = [A{0}, A{0}, A{0}]\nD{1} = {{'a': D{0}, 'b': D{0}, 'c': D{0}}}\n"
        "O{1} = Y.Config(a=O{0}, b=O{0}, c=O{0})\n",
        i, i + 1);
  for (const char* name : {"D15", "O15"})
    CHECK(titan_refuses(lists + file_of(fmt::format("        dataloader={},\n", name)),
                        {"4096 settings"}));
  CHECK(names(main_branch(lists + file_of("        dataloader=A15,\n")).without_influence,
              "dataloader"));
}

TEST_CASE("experts, dispatch and modules for multi-token prediction are read") {
  const std::string text =
      "from torchtitan.models.deepseek_v3 import model_registry\ndef f():\n"
      "    return Trainer.Config(model_spec=model_registry(\"671B\", "
      "moe_comm_backend=\"hybridep\", "
      "num_mtp_layers=1), loss=MTPLoss.Config(),\n        parallelism=ParallelismConfig("
      "expert_parallel_degree=8, tensor_parallel_degree=2))\n";
  const Setup setup = main_branch(text, asked(64));
  for (const char* pin : {"expert=8", "expert_tensor=1", "expert_dispatch=deepep", "tensor=2"})
    CHECK((pins(setup, pin) ? "" : pin) == std::string());
  CHECK(option(setup, "--mtp") == "1");
}

// ---- what our own emitter writes comes back ----
namespace {

using planner::Checkpoint;
using planner::Sharding;
using planner::Strategy;

template <class Change>
void comes_back(const char* name, Change change) {
  INFO(name);
  planner::Plan plan = reports_test::sample_plan();
  plan.model = models::find_model("llama3-8b").value();
  plan.job.seq_len = 4096;
  plan.job.recipe = plan.job.framework = "fsdp2";
  Strategy& s = plan.chosen->strategy;
  s = Strategy{};
  s.data = s.shard_group = 8;
  s.sharding = Sharding::zero3;
  s.micro_batch = 2;
  s.grad_accum = 4;
  s.stages = {32};
  change(plan, s);
  plan.gpus = s.data * s.tensor * s.pipeline;
  plan.nodes = 1;
  plan.job.global_batch = s.data * s.micro_batch * s.grad_accum;
  const auto launch = reports::emit::launch_of(plan, *plan.chosen, "torchtitan_python");
  if (!launch.ok()) FAIL(core::to_text(launch.problems()));
  const Setup setup = imported(launch->text.text(), "planned.py");
  CHECK(setup.model == "llama3-8b");
  CHECK(setup.gpus == plan.gpus);
  CHECK(option(setup, "--seq") == "4096");
  CHECK(option(setup, "--global-batch") == std::to_string(plan.job.global_batch));
  CHECK(option(setup, "--precision") == (plan.job.precision == core::DType::f8 ? "fp8" : "bf16"));
  for (const planner::StrategyKey& key : planner::strategy_keys()) {
    const std::string said = std::string(key.name) + "=";
    for (const std::string& pin : setup.pins) {
      if (!pin.starts_with(said)) continue;
      CHECK(pin == said + (key.name == "checkpoint" ? planner::checkpoint_text(s)
                                                    : planner::value_text(key, s)));
    }
  }
  for (const char* key : {"data=", "tensor=", "pipeline=", "sharding=", "micro_batch=",
                          "checkpoint=", "loss_chunks="})
    CHECK(std::ranges::any_of(setup.pins,
                              [&](const std::string& pin) { return pin.starts_with(key); }));
  CHECK(pins(setup, "schedule=1f1b") == (s.schedule == planner::Schedule::one_f_one_b));
}

}  // namespace

TEST_CASE("what is emitted for torchtitan's main branch is imported as the same strategy") {
  using planner::Plan;
  comes_back("zero3", [](Plan&, Strategy&) {});
  comes_back("zero2", [](Plan&, Strategy& s) { s.sharding = Sharding::zero2; });
  comes_back("ddp", [](Plan&, Strategy& s) { s.sharding = Sharding::none, s.shard_group = 1; });
  comes_back("hsdp", [](Plan&, Strategy& s) { s.shard_group = 4; });
  comes_back("tensor", [](Plan&, Strategy& s) {
    s.tensor = 2;
    s.sequence_parallel = true;
    s.checkpoint = Checkpoint::selective_op;
  });
  comes_back("overlap", [](Plan&, Strategy& s) {
    s.tensor = 4;
    s.sequence_parallel = s.tp_overlap = true;
  });
  comes_back("full recomputation", [](Plan&, Strategy& s) {
    s.checkpoint = Checkpoint::every_k;
    s.checkpoint_every = 1;
  });
  comes_back("fp8", [](Plan& plan, Strategy&) {
    plan.job.precision = core::DType::f8;
    plan.job.fp8_scaling = "rowwise";
  });
  comes_back("stages", [](Plan&, Strategy& s) {
    s.pipeline = 4;
    s.schedule = planner::Schedule::one_f_one_b;
    s.stages = {7, 8, 9, 8};
  });
  comes_back("interleaved", [](Plan&, Strategy& s) {
    s.pipeline = s.virtual_stages = 2;
    s.schedule = planner::Schedule::interleaved;
    s.stages = {1, 14, 15, 2};
  });
  comes_back("offload", [](Plan&, Strategy& s) { s.offload = {"params"}; });
}
