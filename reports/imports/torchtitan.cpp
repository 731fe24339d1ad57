// torchtitan's job file, as its releases up to 0.2 read it (pytorch/torchtitan 000204a,
// torchtitan/config/job_config.py: names and defaults).
#include "reports/imports/torchtitan.hpp"

#include <charconv>

#include <fmt/format.h>

namespace reports::imports {
namespace {

void read_job_model(Facts& f) {
  const auto name = f.settings.text("model.name", "--model");
  const auto flavor = f.settings.text("model.flavor", "--model");
  name_titan_model(f, name.value_or("none"), flavor.value_or("none"), "[model] name, flavor");
}

void read_job_degrees(Facts& f) {
  Settings& s = f.settings;
  planner::Strategy& out = f.strategy;
  read_titan_degrees(f, "parallelism.enable_async_tensor_parallel");
  const auto rotate = s.one_of("parallelism.context_parallel_rotate_method", "context_method",
                               {"allgather", "alltoall"});
  if (out.context > 1) {
    out.context_method = rotate == "alltoall" ? planner::ContextMethod::ring
                                              : planner::ContextMethod::gather;
    f.say("context_method");
  }
  if (s.count("parallelism.expert_tensor_parallel_degree", "expert_tensor") == 1 &&
      out.tensor > 1 && out.expert > 1) {
    out.expert_tensor = 1;
    f.say("expert_tensor");
  }
}

void read_job_checkpoint(Facts& f) {
  using planner::Checkpoint;
  Settings& s = f.settings;
  const auto mode = s.one_of("activation_checkpoint.mode", "checkpoint",
                             {"none", "full", "selective"}).value_or("selective");
  const std::string option =
      s.text("activation_checkpoint.selective_ac_option", "checkpoint").value_or("2");
  f.say("checkpoint");
  f.strategy.checkpoint = mode == "none" ? Checkpoint::none : Checkpoint::every_k;
  f.strategy.checkpoint_every = mode == "full" ? 1 : 0;
  if (mode != "selective") return;
  if (option == "op") {
    f.strategy.checkpoint = Checkpoint::selective_op;
    return;
  }
  std::int64_t k = 0;
  const auto [end, error] = std::from_chars(option.data(), option.data() + option.size(), k);
  if (error != std::errc() || end != option.data() + option.size() || k < 1)
    f.problems.push_back({"[activation_checkpoint] selective_ac_option", "op or a number", option,
                          ""});
  f.strategy.checkpoint_every = k;
}

// Weights that are gathered in 8 bits: planned where each use gathers them.
void read_f8_weights(Facts& f, std::string_view scaling) {
  Settings& s = f.settings;
  std::string_view asked;
  for (const std::string_view key : {"quantize.linear.float8.enable_fsdp_float8_all_gather",
                                     "float8.enable_fsdp_float8_all_gather"})
    if (s.flag(key, "--fp8-tensors")) asked = key;
  if (asked.empty()) return;
  if (scaling.empty())
    f.notes.emplace_back("[float8] without its converter changes nothing");
  else if (scaling != "tensorwise")
    s.leave(asked, "torchao gathers weights in 8 bits with tensorwise scaling alone");
  else if (f.strategy.sharding != planner::Sharding::zero3 || !f.strategy.offload.empty())
    s.leave(asked, "planned in 16 bits: weights are kept from pass to pass, or are on the host");
  else
    f.ask("--fp8-tensors", "params");
}

void read_job_precision(Facts& f) {
  Settings& s = f.settings;
  const Setting* const converters = s.take("model.converters", "--precision");
  const auto scaling = s.text("quantize.linear.float8.recipe_name", "--fp8-scaling");
  const auto old_scaling = s.text("float8.recipe_name", "--fp8-scaling");
  std::string used;
  if (converters != nullptr && !converters->words.empty()) {
    const std::string word = converters->words.front();
    if (word == "mx" || word == "quantize.linear.mx")
      used = "mxfp8";
    else if (word == "float8" || word == "quantize.linear.float8")
      used = scaling.value_or(old_scaling.value_or("tensorwise"));
    else
      s.leave("model.converters", "what it changes in the model is not planned");
  }
  read_titan_precision(f, used);
  read_f8_weights(f, used);
}

}  // namespace

void read_torchtitan(Facts& f, const Given& given) {
  Settings& s = f.settings;
  f.framework = "fsdp2";
  read_job_model(f);
  read_job_degrees(f);
  read_titan_sharding(f, given);
  f.say("loss_chunks");
  read_titan_stages(f);
  read_titan_batch(f);
  read_job_checkpoint(f);
  read_job_precision(f);
  const auto optimizer = s.one_of("optimizer.name", "--optimizer", {"Adam", "AdamW"});
  f.ask("--optimizer", optimizer == "Adam" ? "adam" : "adamw");
  leave_titan_compiler(f, {"compile.enable", "training.compile"});
}

}  // namespace reports::imports
