// Options of Megatron-LM, as scripts give them.
#include "models/layer_kinds.hpp"
#include "tests/unit/imports/imported.hpp"

using namespace imports_test;

// Llama 3 8B, with room for more options.
static std::string llama(const std::string& more, const std::string& launcher = "8") {
  return "#!/bin/bash\nARGS=(\n--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336\n"
         "--num-attention-heads 32 --group-query-attention --num-query-groups 8\n"
         "--position-embedding-type rope --normalization RMSNorm --swiglu --disable-bias-linear\n"
         "--untie-embeddings-and-output-weights --max-position-embeddings 8192\n"
         "--attention-dropout 0.0 --hidden-dropout 0.0 --vocab-size 128256 --seq-length 8192\n"
         "--micro-batch-size 1 --global-batch-size 64 --bf16\n" + more +
         ")\ntorchrun --nproc_per_node " + launcher + " pretrain_gpt.py ${ARGS[@]}\n";
}

TEST_CASE("a script of Megatron-LM becomes a job, a known model and pins") {
  const Setup setup = imported(llama("--tensor-model-parallel-size 2 --sequence-parallel\n"
                                     "--use-distributed-optimizer --overlap-grad-reduce "
                                     "--overlap-param-gather\n"));
  CHECK(setup.model == "llama3-8b");
  CHECK(setup.gpus == 8);
  CHECK(option(setup, "--seq") == "8192");
  CHECK(option(setup, "--global-batch") == "64");
  CHECK(option(setup, "--framework") == "megatron_core");
  CHECK(option(setup, "--recipe") == "megatron");
  CHECK(option(setup, "--precision") == "bf16");
  CHECK(option(setup, "--clip") == "1");  // Megatron-LM's own
  CHECK(option(imported(llama("--clip-grad 0.0\n")), "--clip").empty());
  CHECK(option(imported(llama("--clip-grad 0.5\n")), "--clip") == "0.5");
  for (const char* pin : {"data=4", "tensor=2", "pipeline=1", "context=1", "sequence_parallel=true",
                          "sharding=zero1", "micro_batch=1", "checkpoint=none", "overlap=true",
                          "tp_overlap=false", "offload=none", "loss_chunks=1"})
    CHECK((pins(setup, pin) ? "" : pin) == std::string());
  CHECK(setup.not_read.empty());
}

TEST_CASE("a script as Megatron-LM's examples are is read whole") {
  const Setup setup = imported(
      "#!/bin/bash\nexport CUDA_DEVICE_MAX_CONNECTIONS=${CUDA_DEVICE_MAX_CONNECTIONS:-1}\n"
      "SAVED=${1:-\"kept\"}\nmkdir -p \"$(dirname \"$SAVED\")\"\n"
      "GPUS_PER_NODE=8\nNUM_NODES=2 # of how many\nWORLD_SIZE=$(($GPUS_PER_NODE*$NUM_NODES))\n"
      "TP=2 \nDTYPE=\"fp8\"\nDATA=${2:-\"MOCK\"}\n"
      "LAUNCH=(\n    --nproc_per_node $GPUS_PER_NODE \n    --nnodes $NUM_NODES \n)\n"
      "MODEL=(\n    --num-layers 32 # a comment (with a bracket)\n    --hidden-size 4096\n"
      "    --ffn-hidden-size 14336\n    --num-attention-heads 32\n    --group-query-attention\n"
      "    --num-query-groups 8\n    --position-embedding-type rope\n    --swiglu\n"
      "    --normalization RMSNorm\n    --untie-embeddings-and-output-weights\n"
      "    --disable-bias-linear\n    --max-position-embeddings 8192\n    --seq-length 8192\n)\n"
      "TRAINING=(\n    --micro-batch-size 1\n    --global-batch-size $((WORLD_SIZE * 4))\n"
      "    --bf16\n    --init-method-std 0.0134\n    --attention-dropout 0.0\n"
      "    --hidden-dropout 0.0\n)\n"
      "TYPES=()\nif [[ \"$DTYPE\" == \"fp8\" ]]; then\n    TYPES+=(\n"
      "        \"--fp8-format hybrid\"\n        \"--fp8-amax-history-len 1024\"\n    )\nfi\n"
      "if [[ \"$DATA\" == \"MOCK\" ]] || [[ -z \"$DATA\" ]]; then\n"
      "    MORE=(\"--mock-data\" \"--vocab-size 128256\" \"--split '99,1,0'\")\n"
      "else\n    MORE=(\"--data-path $DATA\" \"--vocab-size 32000\")\nfi\n"
      "PARALLEL=(--tensor-model-parallel-size $TP --sequence-parallel)\n"
      "DDP=(--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather)\n"
      "TRAINING+=(\"${DDP[@]}\")\n"
      "if [ -n \"${WANDB_API_KEY}\" ]; then\n    MORE+=(--wandb-project ${P:-\"x\"})\nfi\n"
      "if [ ! -f pretrain_gpt.py ]; then\n    echo \"Error: not found\"\n    exit 1\nfi\n"
      "torchrun ${LAUNCH[@]} \\\n    pretrain_gpt.py \\\n    ${MODEL[@]} \\\n"
      "    ${TRAINING[@]} \\\n    ${TYPES[@]} ${PARALLEL[@]} ${MORE[@]} --save \"$SAVED\"\n\n"
      "set +x");
  CHECK(setup.model == "llama3-8b");
  CHECK(setup.gpus == 16);
  CHECK(option(setup, "--global-batch") == "64");
  CHECK(option(setup, "--precision") == "fp8");
  for (const char* pin : {"data=8", "tensor=2", "sequence_parallel=true", "sharding=zero1"})
    CHECK((pins(setup, pin) ? "" : pin) == std::string());
  CHECK(setup.not_read.empty());
  CHECK(names(setup.without_influence, "--save"));
}

TEST_CASE("windows of attention are read, in all layers, in every N-th one or from a list") {
  const auto windows = [](const std::string& words) {
    const Setup setup = imported(llama(words + "\n"));
    std::string text;
    REQUIRE(setup.spec);
    models::for_each_kind(*setup.spec, [&](const models::LayerView& kind) {
      text += std::to_string(kind.variants.window) + ' ';
    });
    return text;
  };
  CHECK(windows("--window-size 4095,0") == "4096 ");
  CHECK(windows("--window-size '(127, 0)' --window-attn-skip-freq 4") == "128 0 ");
  CHECK(windows("--window-size 127,0 --window-attn-skip-freq '([1]*7+[0]*1)*4'") == "128 0 ");
  CHECK(imported(llama("--window-size -1,0\n")).model == "llama3-8b");
  CHECK(refuses(tried(llama("--window-size 127,127\n")), {"--window-size", "4095,0"}));
}

TEST_CASE("stages follow the options that divide layers") {
  const auto stages = [](const std::string& more) {
    return imported(llama("--pipeline-model-parallel-size 4\n" + more));
  };
  const Setup even = stages("");
  CHECK(pins(even, "stages=8*4"));
  CHECK(pins(even, "schedule=1f1b"));
  const Setup chunks = stages("--num-layers-per-virtual-pipeline-stage 2\n");
  CHECK(pins(chunks, "virtual_stages=4"));
  CHECK(pins(chunks, "stages=2*16"));
  CHECK(pins(chunks, "schedule=interleaved"));
  CHECK(pins(stages("--decoder-first-pipeline-num-layers 5 --decoder-last-pipeline-num-layers 3\n"),
             "stages=5,12,12,3"));
  CHECK(pins(stages("--account-for-embedding-in-pipeline-split "
                    "--account-for-loss-in-pipeline-split --decoder-first-pipeline-num-layers 7\n"),
             "stages=6,9,9,8"));
  CHECK(pins(stages("--pipeline-model-parallel-layout 'Et*7|t*9|t*9|t*7L'\n"),
             "stages=7,9,9,7"));
  CHECK(refuses(tried(llama("--pipeline-model-parallel-size 3\n", "3")), {"32 layers", "3 x 1"}));
}

TEST_CASE("recomputation is read with its layers and modules") {
  const auto checkpoint = [](const std::string& more) { return imported(llama(more)); };
  CHECK(pins(checkpoint("--recompute-activations\n"), "checkpoint=selective"));
  CHECK(pins(checkpoint("--recompute-granularity selective\n"), "checkpoint=selective"));
  CHECK(pins(checkpoint("--recompute-granularity full --recompute-method uniform "
                        "--recompute-num-layers 4\n"), "checkpoint=every_k(4)"));
  CHECK(pins(checkpoint("--recompute-granularity full --recompute-method block "
                        "--recompute-num-layers 3\n"), "checkpoint=first_k(3)"));
  CHECK(pins(checkpoint("--recompute-granularity selective --recompute-modules core_attn mlp\n"),
             "checkpoint=modules(core_attn+mlp)"));
  CHECK(refuses(tried(llama("--recompute-granularity selective --recompute-modules core\n")),
                {"--recompute-modules", "core_attn", "\"core\""}));
}

TEST_CASE("types of numbers become a recipe and a precision") {
  const auto recipe = [](const std::string& more) {
    const Setup setup = imported(llama(more));
    return option(setup, "--recipe") + " " + option(setup, "--precision") + " " +
           option(setup, "--fp8-scaling");
  };
  CHECK(recipe("") == "megatron bf16 ");
  CHECK(recipe("--grad-reduce-in-bf16\n") == "mixed bf16 ");
  CHECK(recipe("--fp8-format hybrid\n") == "megatron fp8 delayed");
  CHECK(recipe("--fp8-format e4m3 --fp8-recipe mxfp8\n") == "megatron fp8 mxfp8");
  CHECK(recipe("--fp4-format e2m1\n") == "megatron nvfp4 ");
  CHECK(recipe("--fp4-format e2m1 --fp4-recipe nvfp4\n") == "megatron nvfp4 ");
  CHECK(recipe("--use-precision-aware-optimizer --exp-avg-dtype bf16 --exp-avg-sq-dtype bf16\n") ==
        "megatron_bf16_moments bf16 ");
}

TEST_CASE("weights are planned to be gathered in 8 bits where Megatron-LM does so") {
  constexpr const char* kKey = "--fp8-param-gather";
  const std::string with = "--use-distributed-optimizer --fp8-format hybrid --fp8-param-gather ";
  for (const char* scaling : {"delayed", "tensorwise", "blockwise"}) {
    const Setup setup = imported(llama(with + "--fp8-recipe " + scaling + "\n"));
    CHECK(option(setup, "--fp8-tensors") == "params");
    CHECK(names(setup.read, kKey, "--fp8-tensors"));
  }
  const auto left = [&](const std::string& more, const char* why) {
    const Setup setup = imported(llama(more));
    return option(setup, "--fp8-tensors").empty() && names(setup.not_read, kKey, why);
  };
  CHECK(left(with + "--fp8-recipe mxfp8\n", "gathered in 16 bits, as planned"));
  CHECK(left("--use-distributed-optimizer --fp8-param-gather\n", "without --fp8-format"));
  CHECK(left("--fp8-format hybrid --fp8-param-gather\n", "--use-distributed-optimizer"));
  CHECK(left(with + "--optimizer-cpu-offload\n", "on the host"));
}

TEST_CASE("every setting is read, without influence, or named as not read") {
  const Setup setup = imported(llama("--lr 1e-4 --softmax-scale 2 --no-such-option 3 "
                                     "--attention-dropout 0.1\n"));
  CHECK(names(setup.without_influence, "--lr", "learning rate"));
  CHECK(names(setup.not_read, "--softmax-scale", "all earlier tokens"));
  CHECK(names(setup.not_read, "--no-such-option", "does not know"));
  CHECK(names(setup.not_read, "--attention-dropout", "dropout is left out"));
  CHECK(names(setup.read, "--num-layers", "--model"));
  const Setup padded = imported(llama("--tensor-model-parallel-size 1\n"), "train.sh",
                                {.gpus = 8, .vocab = {}, .model = "gpt2-124m", .variables = {}});
  CHECK(names(padded.not_read, "--make-vocab-size-divisible-by", "50304 rows"));
}

TEST_CASE("modules for multi-token prediction are trained where the script says so alone") {
  CHECK(option(imported(llama("--mtp-num-layers 1\n")), "--mtp") == "1");
  CHECK(option(imported(llama("")), "--mtp").empty());
  // The model has a module, and the script does not train it.
  const Given deepseek{.gpus = {}, .vocab = {}, .model = "deepseek-v3", .variables = {}};
  CHECK(option(imported("torchrun --nproc_per_node 8 pretrain_gpt.py --micro-batch-size 1\n",
                        "train.sh", deepseek), "--mtp") == "0");
}

TEST_CASE("a default of a variable is told, and a given value stands in its place") {
  const std::string script = llama("--tensor-model-parallel-size ${TP:-2}\n");
  const Setup setup = imported(script);
  CHECK(pins(setup, "tensor=2"));
  CHECK(std::ranges::any_of(setup.notes, [](const std::string& note) {
    return note.find("--var TP=VALUE") != std::string::npos;
  }));
  Given given;
  given.variables["TP"] = "4";
  CHECK(pins(imported(script, "train.sh", given), "tensor=4"));
  CHECK(refuses(tried(llama("--tensor-model-parallel-size $TP\n")),
                {"train.sh:", "--tensor-model-parallel-size", "\"$TP\"", "--var"}));
}

TEST_CASE("a condition that nothing decides is no reason to read what it guards") {
  const Setup setup = imported(
      "A=()\nif [ -f big ]; then A+=(--tensor-model-parallel-size 8 --lr 1); fi\n" +
      llama("${A[@]}\n"));
  CHECK(pins(setup, "tensor=1"));
  CHECK(names(setup.not_read, "--tensor-model-parallel-size", "condition"));
  CHECK(names(setup.without_influence, "--lr"));
}

TEST_CASE("sizes that no model is known by are a model of their own") {
  std::string script = llama("");
  script.replace(script.find("14336"), 5, "14592");
  const Setup setup = imported(script);
  CHECK(setup.model.empty());
  REQUIRE(setup.spec.has_value());
  CHECK(setup.spec->ffn_hidden == 14592);
  CHECK(setup.spec->vocab == 128256);
  CHECK(setup.spec->kv_heads == 8);
  CHECK(models::check_spec(*setup.spec).empty());
  script.erase(script.find("--vocab-size 128256"), 19);
  CHECK(refuses(tried(script), {"vocabulary", "--vocab"}));
  CHECK(imported(script, "train.sh", {.gpus = {}, .vocab = 5000, .model = "", .variables = {}})
            .spec->vocab == 5000);
}

TEST_CASE("a model that the user names stands, and other sizes in the files are told") {
  const auto named = [](const std::string& script, const char* model) {
    return imported(script, "train.sh",
                    {.gpus = {}, .vocab = {}, .model = model, .variables = {}});
  };
  CHECK(named(llama(""), "llama3-8b").notes.empty());
  const Setup other = named(llama(""), "llama2-7b");
  CHECK(other.model == "llama2-7b");
  REQUIRE(other.notes.size() == 1);
  CHECK(other.notes[0].find("other sizes") != std::string::npos);
  // Without sizes in the script, stages divide the layers of that model.
  const char* bare = "torchrun --nproc_per_node 8 pretrain_gpt.py --micro-batch-size 1 "
                     "--global-batch-size 8 --pipeline-model-parallel-size 4 --bf16\n";
  CHECK(pins(named(bare, "llama3-8b"), "stages=8*4"));
  CHECK(refuses(tried(bare), {"--num-layers", "--model"}));
}

TEST_CASE("GPUs come from the launcher, from Slurm, or from the user") {
  CHECK(imported(llama("", "8 --nnodes=4")).gpus == 32);
  CHECK(imported("#SBATCH --nodes=2\n#SBATCH --gpus-per-node=4\n" + llama("", "$N")).gpus == 8);
  CHECK(imported("#SBATCH -N 4\n#SBATCH --ntasks-per-node 8 --time 1:00:00\n" +
                 llama("", "$N")).gpus == 32);
  CHECK(imported("#SBATCH -N2 --gpus-per-node=8\n" + llama("", "$N")).gpus == 16);
  const Setup none = imported(llama("", "gpu"));
  CHECK_FALSE(none.gpus.has_value());
  CHECK_FALSE(std::ranges::any_of(none.pins, [](const std::string& pin) {
    return pin.starts_with("data=");
  }));
  CHECK(pins(imported(llama("", "gpu"), "train.sh",
                      {.gpus = 16, .vocab = {}, .model = "", .variables = {}}), "data=16"));
}

TEST_CASE("what cannot be is refused where it stands") {
  CHECK(refuses(tried(llama("--tensor-model-parallel-size 3\n")), {"a multiple of 3", "found 8"}));
  CHECK(refuses(tried(llama("--micro-batch-size 3\n")), {"a multiple of 24", "found 64"}));
  CHECK(refuses(tried(llama("--context-parallel-size two\n")),
                {"train.sh:9", "--context-parallel-size", "\"two\""}));
  CHECK(refuses(tried(llama("--tensor-model-parallel-size 9999999\n")), {"at most 1048576"}));
  CHECK(refuses(tried("echo hello\n"), {"train.sh", "a script of Megatron-LM"}));
  CHECK(refuses(tried("x '\n--num-layers"), {"train.sh:1", "the end of the file"}));
}

TEST_CASE("a list of arguments, and a variable that holds all of them, are read too") {
  const char* list =
      "--num-layers 12\n--hidden-size 768 --num-attention-heads 12\n--seq-length 1024\n"
      "--max-position-embeddings 1024 --micro-batch-size 4 --global-batch-size 64 --fp16\n"
      "--loss-scale 4096 --tokenizer-type GPT2BPETokenizer\n";
  const Given on_eight{.gpus = 8, .vocab = {}, .model = "", .variables = {}};
  const Setup listed = imported(list, "args.txt", on_eight);
  CHECK(listed.model == "gpt2-124m");
  CHECK(option(listed, "--recipe") == "mixed");
  CHECK(option(listed, "--precision") == "fp16");
  CHECK(option(listed, "--loss-scale") == "4096");
  const Setup held = imported("N=3\nOPTIONS=\"" + std::string(list) + "\"\nM=4\n", "conf.sh",
                              on_eight);
  CHECK(held.model == "gpt2-124m");
  CHECK(held.pins == listed.pins);
}
