// DeepSpeed's, accelerate's and transformers' files, alone and together.
#include "tests/unit/imports/imported.hpp"

using namespace imports_test;
using reports::imports::File;

static core::Result<Setup> together(std::vector<File> files, const std::string& model = "llama3-8b",
                                    std::optional<std::int64_t> gpus = {}) {
  return reports::imports::read_setup(
      files, {.gpus = gpus, .vocab = {}, .model = model, .variables = {}});
}
static Setup read_all(std::vector<File> files, std::optional<std::int64_t> gpus = {}) {
  const auto setup = together(std::move(files), "llama3-8b", gpus);
  if (!setup.ok()) FAIL(core::to_text(setup.problems()));
  return *setup;
}

static const File kFsdp{"fsdp.yaml",
                        "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\n"
                        "downcast_bf16: 'no'\nfsdp_config:\n"
                        "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
                        "  fsdp_backward_prefetch: BACKWARD_PRE\n"
                        "  fsdp_cpu_ram_efficient_loading: true\n"
                        "  fsdp_forward_prefetch: false\n  fsdp_offload_params: false\n"
                        "  fsdp_sharding_strategy: FULL_SHARD\n"
                        "  fsdp_state_dict_type: SHARDED_STATE_DICT\n"
                        "  fsdp_sync_module_states: true\n  fsdp_use_orig_params: true\n"
                        "machine_rank: 0\nmain_training_function: main\nmixed_precision: bf16\n"
                        "num_machines: 1\nnum_processes: 8\nrdzv_backend: static\n"
                        "same_network: true\ntpu_env: []\nuse_cpu: false\n"};
static const File kArguments{"args.json",
                             "{\"output_dir\": \"out\", \"per_device_train_batch_size\": 2,\n"
                             "\"gradient_accumulation_steps\": 4, \"bf16\": true,\n"
                             "\"gradient_checkpointing\": true, \"learning_rate\": 2e-5,\n"
                             "\"max_seq_length\": 4096, \"optim\": \"adamw_torch_fused\"}"};
static const File kOpen{"ds.json",
                        "{\"zero_optimization\": {\"stage\": 3, \"overlap_comm\": true,\n"
                        "\"reduce_bucket_size\": \"auto\", \"stage3_max_live_parameters\": 1e9,\n"
                        "\"offload_optimizer\": {\"device\": \"cpu\", \"pin_memory\": true}},\n"
                        "\"bf16\": {\"enabled\": \"auto\"}, \"gradient_clipping\": \"auto\",\n"
                        "\"gradient_accumulation_steps\": \"auto\",\n"
                        "\"train_batch_size\": \"auto\",\n"
                        "\"train_micro_batch_size_per_gpu\": \"auto\"}"};

TEST_CASE("Liger's loss is one in pieces") {
  const auto pinned = [](const std::string& more) {
    const std::string all = "{\"per_device_train_batch_size\": 2, \"bf16\": true" + more + "}";
    return pins(read_all({{"args.json", all}}, 8), "loss_chunks=8");
  };
  CHECK(pinned(", \"use_liger_kernel\": true"));
  CHECK_FALSE(pinned(", \"use_liger_kernel\": false"));
  CHECK_FALSE(pinned(""));
}

TEST_CASE("accelerate's FSDP and TrainingArguments make one setup") {
  const Setup setup = read_all({kFsdp, kArguments});
  CHECK(setup.formats == std::vector<std::string>{"accelerate", "trainer"});
  CHECK(setup.gpus == 8);
  for (const char* pin : {"data=8", "sharding=zero3", "micro_batch=2", "checkpoint=every_k(1)",
                          "offload=none"})
    CHECK((pins(setup, pin) ? "" : pin) == std::string());
  CHECK(option(setup, "--global-batch") == "64");
  CHECK(option(setup, "--seq") == "4096");
  CHECK(option(setup, "--framework") == "trainer");
  CHECK(option(setup, "--precision") == "bf16");
  CHECK(option(setup, "--optimizer") == "adamw");
  CHECK(option(setup, "--clip") == "1");  // the Trainer's own
  CHECK(names(setup.without_influence, "trainer:learning_rate"));
  CHECK(names(setup.not_read, "accelerate:fsdp_config.fsdp_forward_prefetch"));
  CHECK(setup.not_read.size() == 1);
}

TEST_CASE("accelerate alone says what it says, and the rest is asked for") {
  const Setup setup = read_all({kFsdp});
  CHECK(option(setup, "--framework") == "fsdp1");
  CHECK_FALSE(std::ranges::any_of(setup.pins, [](const std::string& pin) {
    return pin.starts_with("micro_batch") || pin.starts_with("checkpoint");
  }));
  CHECK(setup.notes.size() == 2);
  File second = kFsdp;
  second.text.replace(second.text.find("FULL_SHARD"), 10, "SHARD_GRAD_OP");
  CHECK(pins(read_all({second}), "sharding=zero2"));
}

TEST_CASE("accelerate's FSDP2 says its groups, and sums in the type that it computes in") {
  const Setup setup = read_all({{"fsdp2.yaml",
                                 "distributed_type: FSDP\nmixed_precision: bf16\n"
                                 "num_machines: 2\nnum_processes: 16\nfsdp_config:\n"
                                 "  fsdp_version: 2\n  fsdp_reshard_after_forward: true\n"
                                 "  fsdp_activation_checkpointing: true\nparallelism_config:\n"
                                 "  parallelism_config_dp_replicate_size: 2\n"
                                 "  parallelism_config_dp_shard_size: 8\n"}});
  CHECK(option(setup, "--framework") == "fsdp2");
  CHECK(option(setup, "--reduce-dtype") == "bf16");
  for (const char* pin : {"data=16", "sharding=zero3", "shard_group=8", "checkpoint=every_k(1)"})
    CHECK((pins(setup, pin) ? "" : pin) == std::string());
  CHECK(setup.not_read.empty());
}

TEST_CASE("what DeepSpeed's file leaves open, TrainingArguments say") {
  const Setup setup = read_all({kOpen, kArguments}, 16);
  for (const char* pin : {"data=16", "sharding=zero3", "micro_batch=2", "offload=optimizer",
                          "overlap=true", "checkpoint=every_k(1)"})
    CHECK((pins(setup, pin) ? "" : pin) == std::string());
  CHECK(option(setup, "--global-batch") == "128");
  CHECK(option(setup, "--framework") == "trainer");
  CHECK(names(setup.not_read, "deepspeed:zero_optimization.reduce_bucket_size", "derives"));
  CHECK(names(setup.not_read, "deepspeed:zero_optimization.stage3_max_live_parameters"));
}

TEST_CASE("DeepSpeed's configuration may stand within TrainingArguments") {
  const Setup setup = read_all(
      {{"args.json", "{\"output_dir\": \"o\", \"per_device_train_batch_size\": 2,\n"
                     "\"deepspeed\": {\"zero_optimization\": {\"stage\": 2}}}"}}, 8);
  CHECK(setup.formats == std::vector<std::string>{"deepspeed", "trainer"});
  CHECK(pins(setup, "sharding=zero2"));
  const Setup path = read_all(
      {{"args.json", "{\"per_device_train_batch_size\": 2, \"deepspeed\": \"ds.json\"}"}}, 8);
  CHECK(names(path.not_read, "trainer:deepspeed", "give it too"));
}

TEST_CASE("a batch of DeepSpeed says how many GPUs there are, and 5e8 is a number of elements") {
  const Setup setup = read_all(
      {{"ds.json", "{\"train_batch_size\": 256, \"train_micro_batch_size_per_gpu\": 8,\n"
                   "\"gradient_accumulation_steps\": 4,\n"
                   "\"fp16\": {\"enabled\": true, \"loss_scale\": 512},\n"
                   "\"optimizer\": {\"type\": \"SGD\", \"params\": {\"lr\": 0.1}},\n"
                   "\"zero_optimization\": {\"stage\": 2, \"reduce_bucket_size\": 5e8}}"}});
  CHECK(setup.gpus == 8);
  CHECK(pins(setup, "bucket_bytes=1000000000"));
  CHECK(pins(setup, "sharding=zero2"));
  CHECK(option(setup, "--precision") == "fp16");
  CHECK(option(setup, "--loss-scale") == "512");
  CHECK(option(setup, "--clip").empty());
  CHECK(option(setup, "--optimizer") == "sgd");
  CHECK(option(setup, "--framework") == "deepspeed");
}

TEST_CASE("files that contradict each other, or are of no format, are refused") {
  const File other{"ds.json", "{\"zero_optimization\": {\"stage\": 1},\n"
                              "\"train_micro_batch_size_per_gpu\": 4}"};
  CHECK(refuses(together({other, kArguments}),
                {"per_device_train_batch_size", "4", "another file"}));
  CHECK(refuses(together({kArguments}, ""), {"the model", "--model"}));
  CHECK(refuses(together({{"x.json", "{\"a\": 1}"}}), {"x.json", "config.json"}));
  CHECK(refuses(together({{"x.json", "{\"a\": "}}), {"x.json"}));
  CHECK(refuses(together({{"ds.json", "{\"zero_optimization\": {\"stage\": 4}}"}}), {"0 to 3"}));
  CHECK(refuses(together({kFsdp, {"t.sh", "p.py --num-layers 2\n"}}), {"several frameworks"}));
}
