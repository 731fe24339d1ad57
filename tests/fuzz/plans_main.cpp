// fuzz_plans BIN_FOLDER SEED CASES [ONLY]: plans that a stranger damaged or that lie, each through
// every verb that reads plans. CASES: how many, or FIRST-LAST. Each must end with 0, 1 or 2 and a
// reason, within 30 s of CPU and 1 GiB, and never by a signal; a run of the plan may take longer,
// but ends when it is told to. What does not is printed with what it takes to repeat it. ONLY runs
// that case alone and leaves its files. Cases are divided over processes, one for each core.

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include <fmt/format.h>

#include "tests/fuzz/mutate.hpp"
#include "tests/fuzz/process.hpp"

namespace {

namespace fs = std::filesystem;
using fuzz::Words;

constexpr fuzz::Limits kLimits{30, 1024 * 1024, 0};
// What a plan says may be a long run.
constexpr fuzz::Limits kRunLimits{60, 1024 * 1024, 5};

// Plans of every shape: what is damaged.
const std::vector<Words>& questions() {
  static const std::vector<Words> all{
      {"--model", "mlp-mnist", "--gpus", "2", "--gpu", "h100-sxm-80g", "--recipe", "fp32",
       "--global-batch", "8", "--pin", "data=2", "--top", "2"},
      {"--model", "./small.json", "--gpus", "4", "--gpu", "h100-sxm-80g", "--seq", "16",
       "--global-batch", "8", "--recipe", "mixed", "--pin", "tensor=2", "--pin", "pipeline=2",
       "--top", "2"},
      {"--model",        "./small.json",
       "--gpus",         "4",
       "--gpu",          "h100-sxm-80g",
       "--seq",          "16",
       "--global-batch", "8",
       "--recipe",       "mixed",
       "--pin",          "data=4",
       "--pin",          "sharding=zero3",
       "--pin",          "offload=optimizer",
       "--clip",         "1",
       "--top",          "2"},
      {"--model", "./experts.json", "--gpus", "4", "--gpu", "h100-sxm-80g", "--seq", "16",
       "--global-batch", "8", "--recipe", "mixed", "--pin", "expert=2", "--top", "2"},
      {"--model", "gpt2-1.5b", "--gpus", "64", "--gpu", "h100-sxm-80g", "--top", "3"},
      {"--model", "llama3-70b", "--gpus", "64", "--gpu", "h100-sxm-80g", "--precision", "fp8",
       "--tokens", "500B", "--price", "h100-sxm-80g=2.5", "--top", "2"},
      {"--model", "gpt2", "--gpus", "8xH100+8xA100", "--top", "2"},
      {"--model", "llama3-8b", "--gpus", "2", "--gpu", "rtx4090", "--mode", "finetune",
       "--lora-rank", "16", "--quantization", "nf4", "--top", "2"},
      {"--model", "mixtral-8x7b", "--gpus", "16", "--gpu", "a100-sxm-80g,h100-sxm-80g", "--top",
       "2"},
      {"--model", "gpt2", "--gpus", "1", "--gpu", "rtx3090", "--mode", "inference", "--top", "2"},
      {"--model", "gpt2", "--gpus", "4", "--gpu", "v100-sxm-32g", "--loss-scale", "1024", "--top",
       "2"}};
  return all;
}

constexpr std::array<const char*, 10> kFrameworks{
    "megatron", "torchtitan", "deepspeed",  "axolotl", "llama_factory",
    "llmc",     "nanotron",   "accelerate", "slurm",   "kubernetes"};
constexpr std::array<const char*, 6> kLaunchers{"torchrun",   "slurm",  "jobset",
                                                "pytorchjob", "mpijob", "skypilot"};

// Every verb that reads a plan; of emit one framework and one launcher a case. A small job of the
// same strategy, which takes seconds, is run of each sixteenth plan.
std::vector<Words> verbs(std::size_t index) {
  const bool small = index / questions().size() % 16 == 0;
  return {{"explain", "time.step", "--plan", "lying.json"},
          {"explain", "memory.activations", "--plan", "lying.json", "--json"},
          {"explain", "why-not", "tensor=2", "--plan", "lying.json"},
          {"compare", "lying.json", "--strategies", "--format", "csv"},
          {"compare", "lying.json", "--machines", "--format", "md"},
          {"compare", "lying.json", "run.json", "--json"},
          {"compare", "lying.json", "--log", "train.log"},
          {"calibrate", "--plan", "lying.json", "--log", "train.log", "--json"},
          {"report", "lying.json", "run.json", "--out", "page.html"},
          {"report", "lying.json", "--format", "md"},
          {"simulate", "lying.json", "--json"},
          {"simulate", "lying.json", "--collectives", "flows", "--storage", "20GB/s",
           "--save-every", "10", "--mtbf", "1000h", "--restart", "60s"},
          {"simulate", "lying.json", "--straggler", "rank=0,slowdown=2", "--trace", "trace.json",
           "--chakra", "traces", "--chakra-ranks", "0"},
          {"emit", "lying.json", "--for", kFrameworks[index % kFrameworks.size()]},
          {"emit", "lying.json", "--for", kFrameworks[index % (kFrameworks.size() - 2)],
           "--launcher", kLaunchers[index % kLaunchers.size()]},
          {"exec", "lying.json", "--steps", "1", small ? "--scale-down" : "--quiet"}};
}

void make_files(const std::string& binary) {
  constexpr fuzz::Limits kMaking{30, 1024 * 1024, 0};
  const std::string small =
      "\"num_hidden_layers\":2,\"hidden_size\":32,\"intermediate_size\":64,"
      "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"max_position_embeddings\":16,"
      "\"vocab_size\":256,\"tie_word_embeddings\":false}";
  fuzz::write_text("small.json", "{\"model_type\":\"llama\"," + small);
  fuzz::write_text("experts.json",
                   "{\"model_type\":\"mixtral\",\"num_local_experts\":4,"
                   "\"num_experts_per_tok\":2," +
                       small);
  fuzz::write_text(
      "train.log",
      " iteration 1/ 2 | elapsed time per iteration (ms): 900.5 | global batch size: 8 |\n"
      " iteration 2/ 2 | elapsed time per iteration (ms): 100.5 | global batch size: 8 |\n");
  for (std::size_t i = 0; i < questions().size(); ++i) {
    Words words = questions()[i];
    words.insert(words.end(), {"--quiet", "--out", fmt::format("plan{}.json", i)});
    const fuzz::Outcome outcome = fuzz::run(binary, words, kMaking);
    if (outcome.code != 0) fmt::print("no plan:{}\n  {}\n", fuzz::shown(words), outcome.reason);
  }
  fuzz::run(binary, {"exec", "plan0.json", "--steps", "1", "--quiet", "--out", "run.json"},
            kMaking);
}

struct Counted {
  std::size_t runs = 0, failures = 0;
  std::array<std::size_t, 3> by_code{};
};

// Case `index` of the seed; its own dice, so that it can be repeated alone.
void run_case(const std::string& binary, std::uint64_t seed, std::size_t index, Counted& counted) {
  fuzz::Dice dice(seed * 0x100000001b3 + index);
  const std::string plan = fuzz::read_text(fmt::format("plan{}.json", index % questions().size()));
  fuzz::write_text("lying.json", dice.below(3) == 0 ? fuzz::mutate_json(plan, dice)
                                                    : fuzz::lie_in_json(plan, dice));
  for (const Words& words : verbs(index)) {
    const fuzz::Limits& limits = words.front() == "exec" ? kRunLimits : kLimits;
    const fuzz::Outcome outcome = fuzz::run(binary, words, limits);
    ++counted.runs;
    if (outcome.code >= 0 && outcome.code <= 2)
      ++counted.by_code[static_cast<std::size_t>(outcome.code)];
    const std::string wrong = fuzz::complaint(outcome, limits);
    if (wrong.empty()) continue;
    ++counted.failures;
    fmt::print("seed {}, case {}: {}:{}\n  {}\n", seed, index, wrong, fuzz::shown(words),
               outcome.reason.substr(0, 300));
    std::fflush(stdout);
  }
}

// Cases first, first + step, ... below last, in a folder of their own.
void run_cases(const std::string& binary, std::uint64_t seed, std::size_t first, std::size_t last,
               std::size_t step, bool keeps_files, Counted& counted) {
  const fs::path folder = fs::temp_directory_path() / fmt::format("planner-plans-{}", ::getpid());
  fs::create_directories(folder);
  fs::current_path(folder);
  make_files(binary);
  std::size_t done = 0;
  for (std::size_t i = first; i < last; i += step) {
    run_case(binary, seed, i, counted);
    if (++done % 100 == 0)
      fmt::print(stderr, "{} plans up to case {}, {} failed\n", done, i, counted.failures);
  }
  fs::current_path("/");
  if (keeps_files)
    fmt::print("files: {}\n", folder.string());
  else
    fs::remove_all(folder);
  std::fflush(stdout);
}

// What all processes count, in memory that they share.
Counted count_cases(const std::string& binary, std::uint64_t seed, std::size_t first,
                    std::size_t last, bool keeps_files) {
  const std::size_t processes =
      std::max<std::size_t>(1, std::min<std::size_t>(std::thread::hardware_concurrency(),
                                                     last - first));
  void* const shared = ::mmap(nullptr, processes * sizeof(Counted), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) std::abort();
  auto* const counted = static_cast<Counted*>(shared);
  for (std::size_t p = 0; p < processes; ++p) {
    new (counted + p) Counted;
    if (::fork() != 0) continue;
    run_cases(binary, seed, first + p, last, processes, keeps_files, counted[p]);
    ::_exit(0);
  }
  Counted all;
  for (int status = 0; ::wait(&status) > 0;)
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) ++all.failures;
  for (std::size_t p = 0; p < processes; ++p) {
    all.runs += counted[p].runs;
    all.failures += counted[p].failures;
    for (std::size_t code = 0; code < all.by_code.size(); ++code)
      all.by_code[code] += counted[p].by_code[code];
  }
  return all;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 4) return 2;
  const std::string binary = fs::absolute(arguments[1]).string() + "/planner";
  const std::uint64_t seed = std::strtoull(arguments[2], nullptr, 10);
  char* end = nullptr;
  std::size_t first = 0, last = std::strtoull(arguments[3], &end, 10);
  if (*end == '-') first = last, last = std::strtoull(end + 1, nullptr, 10) + 1;
  const bool one = count > 4;
  if (one) first = std::strtoull(arguments[4], nullptr, 10), last = first + 1;
  if (last <= first) return 2;
  const Counted all = count_cases(binary, seed, first, last, one);
  fmt::print("{} plans, {} runs: exit 0 {}, exit 1 {}, exit 2 {}; {} failed\n", last - first,
             all.runs, all.by_code[0], all.by_code[1], all.by_code[2], all.failures);
  return all.failures == 0 ? 0 : 1;
}
