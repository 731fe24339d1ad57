// torchtitan's job files.
#include "tests/unit/imports/imported.hpp"

using namespace imports_test;

// Its own preset of Llama 3.1 405B on 128 GPUs, less logging and checkpoints (pytorch/torchtitan
// 01424cb, torchtitan/models/llama3/train_configs/llama3_405b.toml).
static constexpr const char* kLargest =
    "[model]\nname = \"llama3\"\nflavor = \"405B\"\nconverters = \"float8\"\n"
    "[optimizer]\nname = \"AdamW\"\nlr = 8e-5\neps = 1e-8\n[lr_scheduler]\nwarmup_steps = 600\n"
    "[training]\nbatch_size = 2\nseq_len = 8192\nmax_norm = 1.0\nsteps = 3000\ncompile = true\n"
    "[parallelism]\ndata_parallel_replicate_degree = 1\ndata_parallel_shard_degree = -1\n"
    "tensor_parallel_degree = 8\nenable_async_tensor_parallel = true\n"
    "pipeline_parallel_degree = 1\ncontext_parallel_degree = 1\n"
    "[activation_checkpoint]\nmode = 'full'\n"
    "[float8]\nenable_fsdp_float8_all_gather = true\n"
    "precompute_float8_dynamic_scale_for_fsdp = true\nfilter_fqns = \"output\"\n";

static Setup titan(const std::string& text, std::optional<std::int64_t> gpus = {}) {
  return imported(text, "job.toml", {.gpus = gpus, .vocab = {}, .model = "", .variables = {}});
}
static std::string small(const std::string& more) {
  return "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nlocal_batch_size = 4\n" + more;
}

TEST_CASE("torchtitan's preset of its largest model is read whole") {
  const Setup setup = titan(kLargest, 128);
  CHECK(setup.model == "llama3.1-405b");
  for (const char* pin : {"data=16", "tensor=8", "pipeline=1", "context=1", "sharding=zero3",
                          "sequence_parallel=true", "tp_overlap=true", "micro_batch=2",
                          "checkpoint=every_k(1)", "offload=none"})
    CHECK((pins(setup, pin) ? "" : pin) == std::string());
  CHECK(option(setup, "--global-batch") == "32");
  CHECK(option(setup, "--framework") == "fsdp2");
  CHECK(option(setup, "--recipe") == "fsdp2");
  CHECK(option(setup, "--precision") == "fp8");
  CHECK(option(setup, "--fp8-scaling") == "tensorwise");
  CHECK(option(setup, "--fp8-tensors") == "params");
  CHECK(names(setup.not_read, "training.compile", "faster than planned"));
  CHECK(names(setup.not_read, "float8.filter_fqns", "stay in 16 bits"));
  CHECK(names(setup.without_influence, "optimizer.lr"));
  CHECK(setup.not_read.size() == 3);
}

TEST_CASE("torchtitan's weights in 8 bits are planned where each use gathers them") {
  const std::string gathers =
      "[quantize.linear.float8]\nenable_fsdp_float8_all_gather = true\n";
  constexpr const char* kKey = "quantize.linear.float8.enable_fsdp_float8_all_gather";
  const auto of = [&](const std::string& more) {
    return titan("[model]\nname = \"llama3\"\nflavor = \"8B\"\n"
                 "converters = \"quantize.linear.float8\"\n[training]\nlocal_batch_size = 4\n" +
                 gathers + more, 8);
  };
  CHECK(option(of(""), "--fp8-tensors") == "params");
  const Setup kept = of("[parallelism]\nfsdp_reshard_after_forward = \"never\"\n");
  CHECK(option(kept, "--fp8-tensors").empty());
  CHECK(names(kept.not_read, kKey, "kept from pass to pass"));
  const Setup rows = of("recipe_name = \"rowwise\"\n");
  CHECK(names(rows.not_read, kKey, "tensorwise scaling alone"));
}

TEST_CASE("degrees of torchtitan's ranks say how many GPUs there are, and who shares weights") {
  const Setup hybrid = titan(small("[parallelism]\ndata_parallel_replicate_degree = 2\n"
                                   "data_parallel_shard_degree = 8\n"));
  CHECK(hybrid.gpus == 16);
  CHECK(pins(hybrid, "shard_group=8"));
  CHECK(pins(hybrid, "sharding=zero3"));
  CHECK(pins(titan(small("[parallelism]\ndata_parallel_shard_degree = 8\n"
                         "fsdp_reshard_after_forward = \"never\"\n")), "sharding=zero2"));
  CHECK(pins(titan(small("[parallelism]\ndata_parallel_replicate_degree = 8\n"
                         "data_parallel_shard_degree = 1\n")), "sharding=none"));
  CHECK_FALSE(titan(small("")).gpus.has_value());
  // Asked for on other GPUs, weights are divided over all of them.
  const Setup wider = titan(small("[parallelism]\ndata_parallel_shard_degree = 8\n"), 16);
  CHECK(pins(wider, "data=16"));
  CHECK_FALSE(pins(wider, "shard_group=8"));
}

TEST_CASE("stages are those that torchtitan makes where nobody names modules") {
  const auto stages = [](const std::string& more) {
    return titan(small("[parallelism]\ndata_parallel_shard_degree = 2\n"
                       "pipeline_parallel_degree = 4\n" + more));
  };
  // 32 layers, embeddings and head count as one each: 34 = 9 + 9 + 8 + 8, less one at either end.
  const Setup plain = stages("");
  CHECK(pins(plain, "stages=8,9,8,7"));
  CHECK(pins(plain, "schedule=1f1b"));
  CHECK(pins(plain, "sharding=zero2"));   // by default weights stay between micro-batches
  CHECK(pins(plain, "micro_batch=1"));
  const Setup turns = stages("pipeline_parallel_schedule = \"interleaved1f1b\"\n");
  CHECK(pins(turns, "schedule=interleaved"));
  CHECK(pins(turns, "virtual_stages=2"));
  CHECK(pins(turns, "stages=4,5,4*5,3"));
  CHECK(pins(stages("module_fqns_per_model_part = [[\"tok_embeddings\", \"layers.0\"], "
                    "[\"layers.1\", \"layers.2\"], [\"layers.3\"], [\"norm\", \"output\"]]\n"),
             "stages=1,2,1,0"));
  CHECK(names(stages("pipeline_parallel_schedule = \"LoopedBFS\"\n").not_read,
              "parallelism.pipeline_parallel_schedule", "not planned"));
}

TEST_CASE("a job file that is not torchtitan's, or contradicts itself, is refused") {
  const auto refused = [](const std::string& text, std::initializer_list<const char*> words) {
    return refuses(tried(text, "job.toml"), words);
  };
  CHECK(refused("[model]\nname = \"llama3\"\nflavor = \"9B\"\n", {"llama3 9B", "--model"}));
  CHECK(refused(small("seq_len = \"x\"\n"), {"job.toml:6", "training.seq_len"}));
  CHECK(refused(small("[activation_checkpoint]\nselective_ac_option = \"ops\"\n"),
                {"selective_ac_option", "op or a number"}));
  CHECK(refused(small("[parallelism]\npipeline_parallel_degree = 64\n"),
                {"pipeline_parallel_degree", "34 layers"}));
  CHECK(refused("[model\n", {"job.toml:1"}));
}
