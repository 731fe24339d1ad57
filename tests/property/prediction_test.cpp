// Executed memory and traffic equal the prediction, to the byte, on every rank of every cell.
#include "tests/catch.hpp"
#include "tests/property/check_prediction.hpp"
#include "tests/property/strategies.hpp"

using namespace planner;
using namespace tests;

namespace {

Strategy with(std::int64_t data, std::int64_t batch, std::int64_t micro_batch = 1) {
  Strategy s;
  s.data = data;
  s.micro_batch = micro_batch;
  s.grad_accum = batch / data / micro_batch;
  s.bucket_bytes = 20000;              // several buckets in a tiny model
  return s;
}

std::vector<Cell> cells(std::int64_t k, std::int64_t batch) {
  std::vector<Cell> list;
  const auto add = [&](const char* name, auto change, std::int64_t lora = 0) {
    Strategy s = with(k, batch);
    change(s);
    list.push_back({name, s, lora});
  };
  add("ring", [](Strategy& s) { s.grad_sync = GradSync::ring; });
  add("naive", [](Strategy& s) { s.grad_sync = GradSync::naive_all_reduce; });
  add("tree", [](Strategy& s) { s.grad_sync = GradSync::tree; });
  for (std::int64_t m : {1, 2})
    for (bool colocated : {true, false})
      add("server", [&](Strategy& s) {
        s.grad_sync = GradSync::parameter_server;
        s.servers = m;
        s.servers_colocated = colocated;
      });
  for (Sharding z : {Sharding::zero1, Sharding::zero2, Sharding::zero3})
    add("zero", [&](Strategy& s) { s.sharding = z; s.shard_group = s.data; });
  add("no overlap", [](Strategy& s) {
    s.sharding = Sharding::zero3;
    s.shard_group = s.data;
    s.overlap = false;
  });
  if (k == 4) add("hsdp", [](Strategy& s) { s.sharding = Sharding::zero3; s.shard_group = 2; });
  add("lora", [](Strategy& s) { s.grad_sync = GradSync::ring; }, 3);
  add("every_k", [](Strategy& s) { s.checkpoint = Checkpoint::every_k; s.checkpoint_every = 2; });
  add("selective", [](Strategy& s) { s.checkpoint = Checkpoint::selective; });
  add("selective_op", [](Strategy& s) { s.checkpoint = Checkpoint::selective_op; });
  add("pointwise", [](Strategy& s) { s.checkpoint = Checkpoint::pointwise; });
  add("memory_poor", [](Strategy& s) { s.checkpoint = Checkpoint::memory_poor; });
  for (Schedule schedule : {Schedule::naive, Schedule::gpipe, Schedule::one_f_one_b})
    add("pipeline", [&](Strategy& s) {
      s.pipeline = s.data;
      s.data = 1;
      s.grad_accum = batch;
      s.schedule = schedule;
    });
  add("tensor", [&](Strategy& s) { s.tensor = s.data; s.data = 1; s.grad_accum = batch; });
  return list;
}

}  // namespace

TEST_CASE("a single rank trains, and its memory is the prediction") {
  check_cell(tiny_gpt(), {"single", with(1, 12), 0}, "fp32");
  check_cell(small_chain(6, 8), {"single", with(1, 12), 0}, "fp32");
}

TEST_CASE(
    "executed memory and traffic equal the prediction for every strategy on 2, 3 and 4 ranks") {
  for (std::int64_t k : {2, 3, 4})
    for (const Cell& cell : cells(k, 12)) check_cell(tiny_gpt(), cell, "fp32");
}

TEST_CASE("executed memory and traffic equal the prediction with chunks and split passes") {
  for (Schedule schedule :
       {Schedule::interleaved, Schedule::zb_h1, Schedule::zb_h2, Schedule::zb_v,
        Schedule::dualpipe_v}) {
    Strategy s = with(1, 12);
    s.pipeline = 2;
    s.schedule = schedule;
    const bool several = schedule == Schedule::interleaved || in_v(schedule);
    s.virtual_stages = several ? 2 : 1;
    check_cell(tiny_gpt(), {"chunks", s, 0}, "fp32");
    if (schedule != Schedule::interleaved) continue;
    s.virtual_stages = 3;              // the model's ends without layers
    check_cell(tiny_gpt(), {"ends", s, 0}, "fp32");
  }
}

TEST_CASE("executed memory and traffic equal the prediction on both arms of the V") {
  for (const models::ModelSpec& spec : {tiny_gpt(), tiny_llama(), tiny_gpt(7)})
    for (const std::int64_t p : {2, 3})
      for (const std::int64_t data : {1, 2})
        for (const Schedule schedule : {Schedule::zb_v, Schedule::dualpipe_v}) {
          Strategy s = with(data, 12);
          s.pipeline = p;
          s.schedule = schedule;
          s.virtual_stages = 2;
          if (data > 1) s.sharding = Sharding::zero1, s.shard_group = data;
          check_cell(spec, {"V", s, 0}, "mixed");
          for (const Checkpoint again :
               {Checkpoint::selective, Checkpoint::selective_op, Checkpoint::pointwise}) {
            s.checkpoint = again;
            check_cell(spec, {"V", s, 0}, "fp32");
          }
        }
}

TEST_CASE("executed memory and traffic equal the prediction with untied embeddings") {
  models::ModelSpec spec = tiny_gpt();
  spec.tied_embeddings = false;
  for (const Cell& cell : cells(2, 12)) check_cell(spec, cell, "mixed");
}

TEST_CASE("executed memory and traffic equal the prediction for every recipe") {
  for (const char* recipe : {"mixed", "lean", "megatron", "fsdp2", "pure_bf16", "fp64"})
    for (const Cell& cell : cells(2, 12)) check_cell(tiny_gpt(), cell, recipe);
}

// FSDP's root unit, gathered once a micro-batch, and decoding constants that every rank has whole.
TEST_CASE("executed memory and traffic equal the prediction where a root unit stays gathered") {
  hw_profiles::Framework fsdp;
  fsdp.root_unit = fsdp.whole_scales = true;
  for (const models::ModelSpec& spec : {tiny_gpt(), tiny_llama()})
    for (const Cell& cell : {Cell{"trained", mesh(3, 1, 1, Sharding::zero3)},
                             Cell{"tensor", mesh(2, 3, 1, Sharding::zero3)},
                             Cell{"adapters", mesh(2, 1, 1, Sharding::zero3), 2},
                             Cell{"codes", mesh(2, 1, 1, Sharding::zero3), 2, "nf4"}}) {
      INFO(spec.name << ' ' << cell.name);
      Job job = tiny_job(spec, 12, "mixed");
      job.lora_rank = cell.lora_rank;
      job.quantization = cell.quantization;
      const ProgramRun plain = run_program(spec, job, cell.strategy, 2);
      const ProgramRun kept = run_program(spec, job, cell.strategy, 2, 1, {}, fsdp);
      check_prediction(kept);
      CHECK(kept.losses == plain.losses);
      CHECK(kept.weights == plain.weights);
      const auto gathers = [](const ProgramRun& run) {
        std::int64_t calls = 0;
        for (const auto& [key, t] : run.ranks[0].traffic)
          if (key.what == program::Traffic::parameters) calls += t.calls;
        return calls;
      };
      CHECK(gathers(kept) <= gathers(plain));
      if (spec.tied_embeddings) CHECK(gathers(kept) < gathers(plain));  // the table's second one
    }
}

TEST_CASE("executed memory and traffic equal the prediction for Llama") {
  for (const Cell& cell : cells(2, 12)) check_cell(tiny_llama(), cell, "mixed");
  for (const Cell& cell : cells(3, 12))
    check_cell(tiny_llama(models::Family::qwen3), cell, "fp32");
}

TEST_CASE("executed memory and traffic equal the prediction where ranks divide the sequence") {
  for (const models::ModelSpec& spec : {tiny_gpt(), tiny_llama()})
    for (const std::int64_t samples : {1, 2})
      for (const Checkpoint c : {Checkpoint::none, Checkpoint::selective, Checkpoint::selective_op,
                                 Checkpoint::pointwise}) {
        Strategy s = with(2, 12, samples);
        s.tensor = 3;
        s.sequence_parallel = true;
        s.checkpoint = c;
        check_cell(spec, {"sequence", s, 0}, "mixed");
      }
}

TEST_CASE("executed memory and traffic equal the prediction where attention stores its scores") {
  for (const char* attention : {"fused_softmax", "unfused"})
    for (const char* recipe : {"fp32", "mixed"})
      for (const models::ModelSpec& spec : {tiny_gpt(), tiny_llama()}) {
        Strategy s = with(2, 12, 2);
        check_cell(spec, {"scores", s, 0, "none", attention}, recipe);
        s.checkpoint = Checkpoint::selective;
        s.tensor = 3;
        check_cell(spec, {"scores", s, 0, "none", attention}, recipe);
      }
}

TEST_CASE("executed memory and traffic equal the prediction where frozen matrices are codes") {
  for (const char* quantization : {"none", "int8", "nf4", "two_factor"})
    for (const models::ModelSpec& spec : {tiny_gpt(), tiny_llama()}) {
      Strategy s = with(2, 12);
      check_cell(spec, {"codes", s, 3, quantization}, "mixed");
      s.sharding = Sharding::zero3;
      s.shard_group = 2;
      check_cell(spec, {"codes", s, 3, quantization}, "mixed");
      s.sharding = Sharding::none;
      s.shard_group = 1;
      s.tensor = 2;
      check_cell(spec, {"codes", s, 3, quantization}, "fp32");
      s.pipeline = 2;
      s.schedule = Schedule::one_f_one_b;
      s.sharding = Sharding::zero1;
      s.shard_group = 2;
      check_cell(spec, {"codes", s, 3, quantization}, "mixed");
    }
}
