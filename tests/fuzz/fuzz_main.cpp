// fuzz_planner BIN_FOLDER SEED CASES [ONLY]: damaged command lines and damaged model, profile, plan
// and run files through the real binary. Every case must end with 0, 1 or 2, say why on standard
// error unless 0, within a second of CPU and bounded memory, and never by a signal. A case that
// does not is printed with what it takes to repeat it. ONLY runs that case alone and leaves its
// files.

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>

#include "tests/fuzz/mutate.hpp"

namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

constexpr rlim_t kAddressSpace = rlim_t{2} << 30;
constexpr long kMostResidentKiB = 512 * 1024;
constexpr double kMostSeconds = 1;    // of CPU: the machine may be busy
constexpr rlim_t kKilledAfter = 5;    // seconds of CPU

struct Outcome {
  int code = -1;        // -1: ended by a signal
  int signal = 0;
  double seconds = 0;
  long resident_kib = 0;
  std::string reason;   // standard error
};

std::string read_text(const fs::path& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}
void write_text(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

[[noreturn]] void become(const std::string& binary, Words words) {
  const int null = ::open("/dev/null", O_RDWR);
  const int reason = ::open("stderr.txt", O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ::dup2(null, STDIN_FILENO);
  ::dup2(null, STDOUT_FILENO);
  ::dup2(reason, STDERR_FILENO);
  const rlimit memory{kAddressSpace, kAddressSpace}, time{kKilledAfter, kKilledAfter}, core{0, 0};
  ::setrlimit(RLIMIT_AS, &memory);
  ::setrlimit(RLIMIT_CPU, &time);
  ::setrlimit(RLIMIT_CORE, &core);
  words.insert(words.begin(), "planner");
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execv(binary.c_str(), pointers.data());
  ::_exit(126);
}

Outcome run(const std::string& binary, const Words& words) {
  const pid_t child = ::fork();
  if (child == 0) become(binary, words);
  int status = 0;
  rusage used{};
  ::wait4(child, &status, 0, &used);
  Outcome outcome;
  if (WIFEXITED(status)) outcome.code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) outcome.signal = WTERMSIG(status);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  outcome.seconds = seconds(used.ru_utime) + seconds(used.ru_stime);
  outcome.resident_kib = used.ru_maxrss;
  outcome.reason = read_text("stderr.txt");
  return outcome;
}

// What is wrong with an outcome; "" for nothing.
std::string complaint(const Outcome& o) {
  if (o.signal != 0) return fmt::format("ended by signal {}", o.signal);
  if (o.code < 0 || o.code > 2) return fmt::format("exit {}", o.code);
  if (o.code != 0 && o.reason.empty()) return fmt::format("exit {} without a reason", o.code);
  if (o.reason.find("internal error") != std::string::npos) return "an internal error";
  if (o.seconds > kMostSeconds) return fmt::format("{:.2f} s of CPU", o.seconds);
  if (o.resident_kib > kMostResidentKiB) return fmt::format("{} KiB of memory", o.resident_kib);
  return "";
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

std::string shown(const Words& words) {
  std::string text;
  for (const std::string& word : words) text += fmt::format(" '{}'", word.substr(0, 60));
  return text;
}

// Undamaged, every kind is answered: damage is what the others are refused for.
bool whole_files_are_answered(const std::string& binary) {
  bool all = true;
  for (const Kind& kind : kinds()) {
    if (*kind.file != '\0') write_text("damaged.json", read_text(kind.file));
    const Outcome outcome = run(binary, kind.words);
    if (outcome.code == 0 && complaint(outcome).empty()) continue;
    fmt::print("undamaged: exit {}:{}\n  {}\n", outcome.code, shown(kind.words), outcome.reason);
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
  const Outcome outcome = run(binary, words);
  const std::string wrong = complaint(outcome);
  if (outcome.code >= 0 && outcome.code <= 2) ++codes.count[outcome.code];
  if (wrong.empty()) return "";
  return fmt::format("case {}: {}:{}\n  {}", index, wrong, shown(words),
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
