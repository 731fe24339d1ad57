// Lines as the frameworks' own code writes them (the sources in training_log.cpp).
#include "reports/logs/training_log.hpp"

#include "tests/catch.hpp"

using namespace reports::logs;

namespace {

TrainingLog read(const std::string& text) {
  const auto log = read_log(text, "train.log");
  if (!log.ok()) FAIL(core::to_text(log.problems()));
  return *log;
}
std::string refused(const std::string& text) {
  const auto log = read_log(text, "train.log");
  REQUIRE_FALSE(log.ok());
  return core::to_text(log.problems());
}
bool says(const std::string& text, const char* word) {
  INFO(text);
  return text.find(word) != std::string::npos;
}

std::string megatron_line(const std::string& milliseconds, int batch = 64) {
  return " [2026-08-22 15:22:22.123456] iteration        5/     100 | consumed samples:          "
         "320 | elapsed time per iteration (ms): " + milliseconds +
         " | throughput per GPU (TFLOP/s/GPU): 401.2 | learning rate: 1.000000E-04 | global batch "
         "size:    " + std::to_string(batch) +
         " | lm loss: 1.05E+01 | loss scale: 1.0 | number of skipped iterations:   0 |\n";
}

}  // namespace

TEST_CASE("Megatron-LM's iterations and the peaks of its ranks are read") {
  const TrainingLog log = read(
      "building GPT model ...\n" + megatron_line("9301.5") +
      "[Rank 0] (after 5 iterations) memory (MB) | allocated: 30000.00 | max allocated: 60000.50 | "
      "reserved: 61000.00 | max reserved: 66000.00\n"
      "[Rank 4] (after 5 iterations) memory (MB) | allocated: 30000.00 | max allocated: 50000.00 | "
      "reserved: 61000.00 | max reserved: 67000.25\n" + megatron_line("9299.0"));
  CHECK(log.format == "Megatron-LM");
  CHECK(log.rate == Rate::seconds);
  REQUIRE(log.steps.size() == 2);
  CHECK(log.steps[0].value == 9.3015);
  CHECK(log.steps[0].line == 2);
  CHECK(log.steps[1].line == 5);
  CHECK(log.allocated == core::Bytes(62'915'084'288));  // 60000.5 x 2^20
  CHECK(log.reserved == core::Bytes(70'254'854'144));   // 67000.25 x 2^20
  CHECK(log.global_batch == 64);
}

TEST_CASE("torchtitan's coloured lines are tokens a second, with the memory that is reserved") {
  const TrainingLog log = read(
      "[titan] 2025-08-01 10:00:00,000 - root - INFO - \x1b[31mstep:  1  \x1b[32mloss: 12.27124  "
      "\x1b[38;2;180;60;0mgrad_norm:  4.0300  \x1b[36mmemory: 43.45GiB(54.90%)  \x1b[34mtps: 734  "
      "\x1b[36mtflops: 42.51  \x1b[35mmfu: 4.30%\x1b[39m\n"
      "[titan] validate step:  5  loss:  9.90  memory: 60.00GiB(75.00%)  tps: 90,000\n"
      "[titan] step: 10  loss:  9.81  memory: 44.50GiB(56.20%)  tps: 7,012  mfu: 41.2%\n");
  CHECK(log.format == "torchtitan");
  CHECK(log.rate == Rate::tokens_per_second_per_gpu);
  REQUIRE(log.steps.size() == 2);
  CHECK(log.steps[0].value == 734);
  CHECK(log.steps[1].value == 7012);
  CHECK(log.reserved == core::Bytes(47'781'511'168));   // 44.5 x 2^30
  CHECK_FALSE(log.allocated.has_value());
}

TEST_CASE("DeepSpeed's lines are samples a second of the step") {
  const TrainingLog log = read(
      "[2025-01-01 10:00:00,000] [INFO] [timer.py:264:stop] epoch=0/micro_step=40/global_step=10, "
      "RunningAvgSamplesPerSec=10.5, CurrSamplesPerSec=12.5, MemAllocated=3.25GB, "
      "MaxMemAllocated=20.5GB\n[2025-01-01] [INFO] time (ms) | fwd: 100.00 | bwd: 200.00\n");
  CHECK(log.format == "DeepSpeed");
  CHECK(log.rate == Rate::samples_per_second);
  REQUIRE(log.steps.size() == 1);
  CHECK(log.steps[0].value == 12.5);
  CHECK(log.allocated == core::Bytes(22'011'707'392));  // 20.5 x 2^30
}

TEST_CASE("nanotron's figures have suffixes") {
  const TrainingLog log = read(
      "11/25 10:00:00 [INFO|DP=0]: iteration: 5 / 20 | consumed_tokens: 1.31M | "
      "elapsed_time_per_iteration_ms: 1.23K | tokens_per_sec: 213K | tokens_per_sec_per_gpu: 26.6K "
      "| global_batch_size: 1.02K | lm_loss: 11.5\n"
      " Memory usage: 1000.00MiB. Peak allocated 2000.50MiB. Peak reserved: 3000.00MiB\n"
      "iteration: 6 / 20 | elapsed_time_per_iteration_ms: 987 | global_batch_size: 1.02K\n");
  CHECK(log.format == "nanotron");
  REQUIRE(log.steps.size() == 2);
  CHECK(log.steps[0].value == Approx(1.23));
  CHECK(log.steps[1].value == Approx(0.987));
  CHECK(log.allocated == core::Bytes(2'097'676'288));   // 2000.5 x 2^20
  CHECK(log.reserved == core::Bytes(3'145'728'000));
}

TEST_CASE("transformers say how fast the whole run was, on a line or in trainer_state.json") {
  const TrainingLog printed = read(
      "{'loss': 2.1, 'grad_norm': 1.0, 'learning_rate': 1e-05, 'epoch': 0.1}\n"
      "{'train_runtime': 512.25, 'train_samples_per_second': 12.5, 'train_steps_per_second': "
      "0.195, 'train_loss': 2.0, 'epoch': 1.0}\n");
  CHECK(printed.format == "Hugging Face Trainer");
  CHECK(printed.whole_run);
  REQUIRE(printed.steps.size() == 1);
  CHECK(printed.steps[0].value == 12.5);
  const TrainingLog state = read(
      "{\n \"global_step\": 100,\n \"log_history\": [\n  {\"loss\": 2.1, \"step\": 10},\n  {\n"
      "   \"step\": 100,\n   \"train_runtime\": 512.25,\n   \"train_samples_per_second\": 12.5\n  }"
      "\n ]\n}\n");
  REQUIRE(state.steps.size() == 1);
  CHECK(state.steps[0].value == 12.5);
  CHECK(state.steps[0].line == 8);
  CHECK(says(refused("{\"log_history\": [{\"loss\": 2}]}"), "the run must have ended"));
}

TEST_CASE("a figure that cannot be is refused by its line") {
  for (const char* value : {"nan", "-5.0", "0.0", "inf", "x"})
    CHECK(says(refused(megatron_line("9301.5") + megatron_line(value)), "train.log:2"));
  CHECK(says(refused(megatron_line("9301.5", 64) + megatron_line("9301.5", 128)),
             "64, as the lines before"));
}

TEST_CASE("a file without a line of any framework is refused") {
  CHECK(says(refused("hello\nworld\n"), "lines of Megatron-LM, torchtitan"));
  CHECK(says(refused(""), "none of them"));
  CHECK(says(refused("{\"log_history\": "), "train.log"));
}
