// torchtitan's configuration in Python, which replaced its job files in February 2026: a function
// that returns a Trainer.Config. Release 0.3.0 (as on PyPI) and the main branch (pytorch/torchtitan
// b5bcd76) differ in how data and batches are said: torchtitan/config/configs.py,
// torchtitan/trainer.py, torchtitan/models/llama3.
#include <algorithm>
#include <utility>

#include "reports/emit/python_words.hpp"
#include "reports/emit/torchtitan_parts.hpp"

namespace reports::emit {
namespace {

using core::Code;
using core::code;
using planner::Checkpoint;
using planner::Sharding;

void check_for_torchtitan_python(Question& q) {
  const planner::Strategy& s = q.s;
  check_for_any_torchtitan(q);
  q.require(!torchtitan_flavor(q.model()).empty(), "model " + q.model().name,
            "a size that torchtitan's llama3 has: 1B, 3B, 8B, 70B or 405B",
            "emit for torchtitan (release 0.2), whose file says what to add");
  q.require(s.context == 1, fmt::format("context={}", s.context),
            "context=1: what its context ranks send is not known here",
            "plan with --pin context=1, or emit for torchtitan (release 0.2)");
  q.require(q.job().optimizer == planner::OptimizerKind::adamw,
            fmt::format("optimizer={}", planner::optimizer(q.job().optimizer).name), "adamw",
            "plan with --optimizer adamw");
  q.require(q.job().fp8_tensors.empty() &&
                (q.job().precision != core::DType::f8 || q.job().fp8_scaling == "rowwise"),
            fmt::format("fp8_scaling={}{}", q.job().fp8_scaling,
                        q.job().fp8_tensors.empty() ? "" : ", fp8_tensors"),
            "fp8_scaling=rowwise, and no fp8_tensors", "plan with --fp8-scaling rowwise");
  const core::DType reduced = q.job().reduce_dtype.value_or(q.recipe.gradient);
  q.require(reduced == core::DType::f32 || s.sharding == Sharding::none,
            fmt::format("gradients summed in {}", core::name(reduced)),
            "f32: its mixed_precision_reduce has no other type", "plan with --reduce-dtype f32");
  q.require(s.checkpoint == Checkpoint::none || s.checkpoint == Checkpoint::selective_op ||
                (s.checkpoint == Checkpoint::every_k && s.checkpoint_every == 1),
            s.checkpoint == Checkpoint::every_k
                ? fmt::format("checkpoint=every_k({})", s.checkpoint_every)
                : fmt::format("checkpoint={}", name(s.checkpoint)),
            "checkpoint=none, every_k(1) or selective_op",
            "plan with --pin checkpoint='every_k(1)'");
}

enum class TitanReader : std::uint8_t { release_0_3, main_branch };

Code training(const Question& q, TitanReader reader) {
  const planner::Strategy& s = q.s;
  PythonArguments a;
  if (reader == TitanReader::main_branch) {
    a.set("num_tokens_per_microbatch_per_dp_rank", s.micro_batch * q.job().seq_len);
    a.set("num_tokens_per_train_step", q.job().global_batch * q.job().seq_len);
    a.set("max_context_length", q.job().seq_len);
  } else {
    a.set("local_batch_size", torchtitan_local_batch(s));
    a.set("global_batch_size", q.job().global_batch);
    a.set("seq_len", q.job().seq_len);
  }
  a.set("steps", 20);
  a.set("max_norm", torchtitan_norm(q));
  a.set("mixed_precision_param", torch_name(q.recipe.compute));
  a.set("enable_cpu_offload", s.offloads("params"));
  a.set("disable_cuda_graphs", true);  // the plan counts on none
  return a.text();
}

Code parallelism(const Question& q, TitanReader reader) {
  const planner::Strategy& s = q.s;
  const TorchtitanDegrees degrees = torchtitan_degrees(s);
  PythonArguments a;
  a.set("data_parallel_replicate_degree", degrees.replicate);
  a.set("data_parallel_shard_degree", degrees.shard);
  if (s.sharding != Sharding::none)
    a.set("fsdp_reshard_after_forward",
          std::string_view(s.sharding == Sharding::zero3 ? "always" : "never"));
  a.set("tensor_parallel_degree", s.tensor);
  a.set("pipeline_parallel_degree", s.pipeline);
  if (s.pipeline > 1) {
    a.set("pipeline_parallel_schedule", planner::schedule_def(s.schedule).torch);
    if (reader == TitanReader::main_branch) a.set("num_pp_microbatches", s.grad_accum);
    else a.set("pipeline_parallel_microbatch_size", s.micro_batch);
    core::Json parts = core::Json::array();
    for (const std::vector<std::string>& part : torchtitan_modules(q.chunks(), "lm_head"))
      parts.push_back(core::Json::array_of(part));
    a.set_code("module_fqns_per_model_part", Code::json(parts, 0));
  }
  return a.text();
}

Code checkpointing(const planner::Strategy& s) {
  if (s.checkpoint == Checkpoint::none) return "None";
  return Code::own(s.checkpoint == Checkpoint::selective_op ? "SelectiveAC.Config()"
                                                            : "FullAC.Config()");
}

// What the test data is read by: imported first, behind the others, and made.
struct TitanData {
  std::string_view first, behind, loader;
};
constexpr TitanData kGrain{
    "from torchtitan.components.data import ConcatThenSplitPackingConfig, GrainDataLoader\n",
    "from torchtitan.hf_datasets.text_datasets import DATASETS\n",
    "GrainDataLoader.Config(\n"
    "            dataset=ConcatThenSplitPackingConfig(dataset=DATASETS[\"c4_test\"]),\n"
    "        )"};
constexpr TitanData kHuggingFace{
    "", "from torchtitan.hf_datasets.text_datasets import HuggingFaceTextDataLoader\n",
    "HuggingFaceTextDataLoader.Config(dataset=\"c4_test\")"};

// {0} head, {1} flavor, {2} compile, {3} async tensor parallelism, {4} converters, {5} training,
// {6} parallelism, {7} recomputation, {8} to {10} of TitanData
constexpr std::string_view kModule =
    R"py({0}{8}from torchtitan.components.loss import CrossEntropyLoss
from torchtitan.components.optimizer import default_adamw
from torchtitan.components.quantization import Float8LinearConverter
from torchtitan.config import CompileConfig, ParallelismConfig, TrainingConfig
from torchtitan.distributed.activation_checkpoint import FullAC, SelectiveAC
{9}from torchtitan.models.common.config_utils import decoder_vocab_size
from torchtitan.models.llama3 import model_registry
from torchtitan.trainer import Trainer


def planned() -> Trainer.Config:
    compile_config = CompileConfig(enable={2}, enable_async_tensor_parallel={3})
    model_spec = model_registry({1}, attn_backend="varlen", converters={4})
    return Trainer.Config(
        model_spec=model_spec,
        hf_assets_path="./tests/assets/tokenizer",
        loss=CrossEntropyLoss.Config(global_vocab_size=decoder_vocab_size(model_spec)),
        optimizer=default_adamw(lr=1e-4),
        dataloader={10},
        training=TrainingConfig(
{5}        ),
        parallelism=ParallelismConfig(
{6}        ),
        activation_checkpoint={7},
        compile=compile_config,
    )
)py";

std::vector<std::string> notes_for_torchtitan_python(const Question& q) {
  std::vector<std::string> all{
      "torchtitan's own test data and tokenizer, 20 steps: give a dataset, a tokenizer and a "
      "schedule "
      "of your own",
      "attention: torchtitan masks documents, so it computes less than the plan where several are "
      "packed into a sample"};
  if (q.s.tp_overlap && !q.job().compile)
    all.emplace_back(
        "compile: asynchronous tensor parallelism needs it, so the run is faster than "
        "the plan, which counts on no compiler");
  note_for_any_torchtitan(q, all);
  return all;
}

// How it is started, as its first comment says.
Code titan_head(const Question& q, TitanReader reader) {
  const bool several = q.plan.nodes > 1;
  const Code start =
      torchrun_command(q, "-m torchtitan.train --module planned --config planned");
  Code head = code("# {}\n", q.title());
  if (reader == TitanReader::release_0_3)
    head += "# For torchtitan 0.3 (pip install torchtitan==0.3.0), in the folder of this file as "
            "planned.py:\n";
  else
    head += "# For torchtitan's main branch (b5bcd76, August 2026), in a checkout of it, with this "
            "file there as planned.py:\n";
  if (several) return head + code("#   {}\n# on each node.\n", start);
  if (reader == TitanReader::release_0_3) return head + code("#   {}\n", start);
  return head + code("#   MODULE=planned CONFIG=planned NGPU={} ./run_train.sh\n",
                     std::min(q.plan.gpus, q.plan.gpus_per_node));
}

core::Result<Written> titan_written(Question& q, TitanReader reader) {
  check_for_torchtitan_python(q);
  if (!q.problems.empty()) return q.problems;
  const bool compiles = q.job().compile || q.s.tp_overlap;
  const TitanData& data = reader == TitanReader::main_branch ? kGrain : kHuggingFace;
  const bool f8 = q.job().precision == core::DType::f8;
  Written written;
  written.notes = notes_for_torchtitan_python(q);
  written.text =
      code(kModule, titan_head(q, reader), literal(torchtitan_flavor(q.model())), literal(compiles),
           literal(q.s.tp_overlap),
           Code::own(f8 ? "[\n        Float8LinearConverter.Config(filter_fqns=[\"lm_head\"], "
                          "model_compile_enabled=compile_config.enable),\n    ]"
                        : "None"),
           training(q, reader), parallelism(q, reader), checkpointing(q.s),
           Code::own(data.first), Code::own(data.behind), Code::own(data.loader));
  written.program = R"(-m torchtitan.train --module planned --config planned "$@")";
  written.file_name = "planned.py";
  written.imported = true;
  written.place = Code::own(reader == TitanReader::main_branch ? "a checkout of torchtitan"
                                                               : "the folder of that file");
  written.framework = "torchtitan";
  return written;
}

}  // namespace

core::Result<Written> torchtitan_python(Question& q) {
  return titan_written(q, TitanReader::main_branch);
}
core::Result<Written> torchtitan_0_3(Question& q) {
  return titan_written(q, TitanReader::release_0_3);
}

}  // namespace reports::emit
