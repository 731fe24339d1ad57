// fuzz_planner BIN_FOLDER SEED CASES [ONLY]: damaged command lines and damaged model, profile, plan
// and run files through the real binary. Every case must end with 0, 1 or 2, say why on standard
// error unless 0, within a second of CPU and bounded memory, and never by a signal. A case that
// does not is printed with what it takes to repeat it. ONLY runs that case alone and leaves its
// files.

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>

#include "tests/fuzz/mutate.hpp"
#include "tests/fuzz/process.hpp"

namespace {

namespace fs = std::filesystem;
using fuzz::read_text;
using fuzz::Words;
using fuzz::write_text;

constexpr fuzz::Limits kLimits;

fuzz::Outcome run(const std::string& binary, const Words& words) {
  return fuzz::run(binary, words, kLimits);
}

const Words kQuestion{"--model", "gpt2-124m", "--gpus", "4", "--gpu", "h100-sxm-80g", "--seq", "64",
                      "--global-batch", "8", "--top", "2"};

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// The whole files that the cases damage, made by the binary itself.
void make_files(const std::string& binary) {
  const Words small{"--model", "mlp-mnist", "--gpus", "2", "--gpu", "h100-sxm-80g", "--recipe",
                    "fp32", "--global-batch", "8", "--pin", "data=2"};
  run(binary, with(small, {"--out", "plan.json"}));
  run(binary, {"exec", "plan.json", "--steps", "1", "--out", "run.json"});
  write_text("config.json",
             "{\"model_type\":\"gpt2\",\"n_layer\":2,\"n_embd\":64,\"n_head\":4,"
             "\"n_positions\":64,\"vocab_size\":96}");
  write_text("train.sh",
             "#!/bin/bash\nN=${N:-2}\nif [[ \"$N\" == 2 ]]; then A=(--bf16); else A=(); fi\n"
             "A+=(--num-layers 12 --hidden-size 768 --num-attention-heads 12 --seq-length 1024\n"
             "  --max-position-embeddings 1024 --micro-batch-size 4\n"
             "  --global-batch-size $((N * 32))\n"
             "  --tokenizer-type GPT2BPETokenizer --lr 1e-4 --moe-layer-freq '[1]*12')\n"
             "torchrun --nproc_per_node 8 pretrain_gpt.py \"${A[@]}\" 2>&1 | tee log\n");
  write_text("job.toml",
             "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nlocal_batch_size = 2\n"
             "seq_len = 8192\n[parallelism]\ndata_parallel_shard_degree = 2\n"
             "pipeline_parallel_degree = 2\nmodule_fqns_per_model_part = [[\"layers.0\"], []]\n");
  write_text("fsdp.yaml",
             "distributed_type: FSDP\nfsdp_config:\n  fsdp_sharding_strategy: FULL_SHARD\n"
             "  names:\n  - a\nmixed_precision: 'bf16'\nnum_processes: 8  # all\n");
  write_text("ds.json",
             "{\"train_batch_size\": 16, \"train_micro_batch_size_per_gpu\": 2,\n"
             " \"zero_optimization\": {\"stage\": 2, \"reduce_bucket_size\": 5e8},\n"
             " \"bf16\": {\"enabled\": true}}\n");
  write_text("train.log",
             " iteration 1/ 2 | elapsed time per iteration (ms): 900.5 | global batch size: 8 |\n"
             " iteration 2/ 2 | elapsed time per iteration (ms): 100.5 | global batch size: 8 |\n"
             "[Rank 0] memory (MB) | max allocated: 512.00 | max reserved: 600.00\n");
  const std::string plan = read_text("plan.json");
  const auto part = [&](const std::string& key) {  // of a file of ours, indented evenly
    const std::size_t at = plan.find('"' + key + "\": {");
    const std::size_t line = plan.rfind('\n', at) + 1;
    const std::size_t end = plan.find('\n' + std::string(at - line, ' ') + '}', at);
    const std::size_t first = plan.find('{', at);
    return plan.substr(first, end - first) + '\n' + std::string(at - line, ' ') + "}\n";
  };
  write_text("model.json", part("spec"));
  write_text("profile.json", part("profile"));
}

struct Kind {
  const char* file;  // damaged into damaged.json, or "" for a damaged command line
  Words words;
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all{
      {"", kQuestion},
      {"", with(kQuestion, {"--pin", "sharding=zero1", "--forbid", "micro_batch=1"})},
      {"", with(kQuestion, {"--pin", "bucket_bytes=24MiB", "--optimizer", "adam", "--json"})},
      {"", with({"explain", "memory.weights"}, kQuestion)},
      {"", {"explain", "C4", "--gpus", "4", "--servers", "2"}},
      {"", {"compare", "plan.json", "run.json", "--json"}},
      {"", {"gpus", "--json"}},
      {"", {"sweep", "--model", "mlp-mnist", "--gpu", "h100-sxm-80g", "--gpus", "1..2", "--recipe",
            "fp32", "--global-batch", "8,16", "--format", "csv"}},
      {"", {"compare", "plan.json", "--strategies", "--format", "md"}},
      {"model.json", {"--model", "./damaged.json", "--gpus", "2", "--global-batch", "8"}},
      {"config.json", {"--model", "./damaged.json", "--gpus", "2", "--global-batch", "8"}},
      {"profile.json", {"--model", "gpt2-124m", "--gpus", "2", "--gpu", "./damaged.json", "--seq",
                        "64", "--global-batch", "8"}},
      {"plan.json", {"explain", "time.step", "--plan", "damaged.json"}},
      {"plan.json", {"compare", "damaged.json", "run.json"}},
      {"run.json", {"compare", "plan.json", "damaged.json"}},
      {"plan.json", {"report", "damaged.json", "run.json", "--format", "html"}},
      {"run.json", {"report", "plan.json", "damaged.json"}},
      {"train.sh", {"import", "damaged.json"}},
      {"train.sh", {"import", "damaged.json", "--json", "--var", "N=4"}},
      {"job.toml", {"import", "damaged.json", "--json"}},
      {"fsdp.yaml", {"import", "damaged.json", "--model", "gpt2-124m"}},
      {"ds.json", {"import", "damaged.json", "--model", "gpt2-124m", "--json"}},
      {"train.log", {"compare", "plan.json", "--log", "damaged.json"}},
  };
  return all;
}

// Undamaged, every kind is answered: damage is what the others are refused for.
bool whole_files_are_answered(const std::string& binary) {
  bool all = true;
  for (const Kind& kind : kinds()) {
    if (*kind.file != '\0') write_text("damaged.json", read_text(kind.file));
    const fuzz::Outcome outcome = run(binary, kind.words);
    if (outcome.code == 0 && fuzz::complaint(outcome, kLimits).empty()) continue;
    fmt::print("undamaged: exit {}:{}\n  {}\n", outcome.code, fuzz::shown(kind.words),
               outcome.reason);
    all = false;
  }
  return all;
}

struct Codes {
  std::size_t count[3] = {};
};

// Case `index` of the seed; its own dice, so that it can be repeated alone.
std::string run_case(const std::string& binary, std::uint64_t seed, std::size_t index,
                     Codes& codes) {
  fuzz::Dice dice(seed * 0x100000001b3 + index);
  const Kind& kind = kinds()[index % kinds().size()];
  Words words = kind.words;
  if (*kind.file == '\0')
    words = fuzz::mutate_words(std::move(words), dice);
  else
    write_text("damaged.json", fuzz::mutate_json(read_text(kind.file), dice));
  const fuzz::Outcome outcome = run(binary, words);
  const std::string wrong = fuzz::complaint(outcome, kLimits);
  if (outcome.code >= 0 && outcome.code <= 2) ++codes.count[outcome.code];
  if (wrong.empty()) return "";
  return fmt::format("case {}: {}:{}\n  {}", index, wrong, fuzz::shown(words),
                     outcome.reason.substr(0, 200));
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 4) return 2;
  const std::string binary = fs::absolute(arguments[1]).string() + "/planner";
  const std::uint64_t seed = std::strtoull(arguments[2], nullptr, 10);
  const std::size_t cases = std::strtoull(arguments[3], nullptr, 10);
  const fs::path folder =
      fs::temp_directory_path() / fmt::format("planner-fuzz-{}", ::getpid());
  fs::create_directories(folder);
  fs::current_path(folder);
  make_files(binary);
  if (!whole_files_are_answered(binary)) return 1;
  std::size_t failures = 0;
  Codes codes;
  const std::size_t first = count > 4 ? std::strtoull(arguments[4], nullptr, 10) : 0;
  for (std::size_t i = first; i < (count > 4 ? first + 1 : cases); ++i) {
    const std::string wrong = run_case(binary, seed, i, codes);
    if (wrong.empty()) continue;
    ++failures;
    fmt::print("seed {}, {}\n", seed, wrong);
  }
  fs::current_path("/");
  if (count > 4)
    fmt::print("files: {}\n", folder.string());
  else
    fs::remove_all(folder);
  fmt::print("{} cases: exit 0 {}, exit 1 {}, exit 2 {}; {} failed\n", count > 4 ? 1 : cases,
             codes.count[0], codes.count[1], codes.count[2], failures);
  return failures == 0 ? 0 : 1;
}
