#include "models/zoo.hpp"

#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "tests/catch.hpp"
#include "tests/unit/models/specs.hpp"

using namespace models;
using namespace models_test;
namespace fs = std::filesystem;

namespace {

// A folder of its own, removed at the end.
class Folder {
 public:
  explicit Folder(const std::string& name) : path_(fs::temp_directory_path() / name) {
    fs::remove_all(path_);
    fs::create_directories(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  std::string write(const std::string& file, const std::string& text) const {
    std::ofstream(path_ / file) << text;
    return (path_ / file).string();
  }
  std::string path() const { return path_.string(); }

 private:
  fs::path path_;
};

constexpr const char* kConfig =
    R"({"model_type": "gpt2", "n_layer": 3, "n_embd": 24, "n_head": 2, "n_positions": 16,
        "vocab_size": 100})";

}  // namespace

TEST_CASE("the zoo's parameter counts are the published ones") {
  // Each as the weights of the named repository hold it, or worked from the published widths.
  const std::map<std::string, std::int64_t> expected{
      // GPT-2 as released; GPT-3: 96 (12 h^2 + 13 h) + (50,257 + 2,048 + 2) h at h = 12,288 =
      // 173,961,510,912 + 642,748,416. Chain: 64 (1024^2 + 1024). MLP: chain_test.cpp.
      {"gpt2-124m", 124'439'808},
      {"gpt2-355m", 354'823'168},
      {"gpt2-774m", 774'030'080},
      {"gpt2-1.5b", 1'557'611'200},
      {"gpt3-175b", 174'604'259'328},
      // OPT: L (12 h^2 + 13 h) + (50272 + 2050) h + 2 h.
      {"opt-125m", 125'239'296},
      {"opt-1.3b", 1'315'758'080},
      {"opt-6.7b", 6'658'473'984},
      {"opt-13b", 12'853'473'280},
      {"opt-30b", 29'974'540'288},
      {"opt-66b", 65'719'701'504},
      {"opt-175b", 174'604'468'224},
      // BLOOM: L (12 h^2 + 13 h) + 250880 h + 4 h.
      {"bloom-7b1", 7'069'016'064},
      {"bloom-176b", 176'247'271'424},
      {"mlp-mnist", 669'706},
      {"chain", 67'174'400},
      // A Llama layer is 2 h q + 2 h kv + 3 h f + 2 h, q and kv the widths of queries and keys; 7B:
      // 32 (4 x 4096^2 + 3 x 4096 x 11008 + 8192) + 2 x 32000 x 4096 + 4096.
      {"llama2-7b", 6'738'415'616},
      {"llama2-13b", 13'015'864'320},
      {"llama2-70b", 68'976'648'192},
      {"llama3-8b", 8'030'261'248},
      {"llama3-70b", 70'553'706'496},
      {"llama3.1-8b", 8'030'261'248},
      {"llama3.1-70b", 70'553'706'496},
      {"llama3.2-1b", 1'235'814'400},
      {"llama3.2-3b", 3'212'749'824},
      {"mistral-small-24b", 23'572'403'200},
      {"phi-4", 14'659'507'200},
      // 36 (2048 (2 x 2048 + 2 x 512) + 3 x 2048 x 11008 + 2 x 2048) + 128,257 x 2048.
      {"smollm3-3b", 3'075'098'624},
      // With biases of q, k and v.
      {"qwen2.5-0.5b", 494'032'768},
      {"qwen2.5-1.5b", 1'543'714'304},
      {"qwen2.5-3b", 3'085'938'688},
      {"qwen2.5-7b", 7'615'616'512},
      {"qwen2.5-14b", 14'770'033'664},
      {"qwen2.5-32b", 32'763'876'352},
      {"qwen2.5-72b", 72'706'203'648},
      // With two norms of a head's width.
      {"qwen3-0.6b", 596'049'920},
      {"qwen3-1.7b", 1'720'574'976},
      {"qwen3-4b", 4'022'468'096},
      {"qwen3-8b", 8'190'735'360},
      {"qwen3-14b", 14'768'307'200},
      {"qwen3-32b", 32'762'123'264},
      {"qwen3-30b-a3b", 30'532'122'624},
      {"qwen3-235b-a22b", 235'093'634'560},
      {"llama3.1-405b", 405'853'388'800},
      {"mistral-7b", 7'241'732'096},
      // A layer: attention 41,943,040, 8 x 3 h f = 1,409,286,144, router 8 h, norms 2 h.
      {"mixtral-8x7b", 46'702'792'704},
      {"mixtral-8x22b", 140'620'634'112},
      // L (12 h^2 + 2 h) + 50432 h + h: 7B 32 x 201,334,784 + 206,573,568 at h = 4096; 30B
      // 48 x 616,577,024 + 361,503,744 at h = 7168.
      {"mpt-7b", 6'649'286'656},
      {"mpt-30b", 29'957'200'896},
      // 44 (12 h^2 + 13 h) + 2 x 50432 h + 2 h at h = 6144.
      {"gpt-neox-20b", 20'554'567'680},
      {"pythia-160m", 162'322'944},
      {"pythia-410m", 405'334'016},
      {"pythia-1.4b", 1'414'647'808},
      {"pythia-2.8b", 2'775'208'960},
      {"pythia-6.9b", 6'857'302'016},
      {"pythia-12b", 11'846'072'320},
      // Embeddings 31,782,912 with their norm, 24 (12 h^2 + 13 h), pooler h^2 + h at h = 1024.
      {"bert-base", 109'482'240},
      {"bert-large", 335'141'888},
      // Our count, not a published one: encoder 5120 h + 3 h, 33 (12 h^2 + 13 h), decoder h x 1024
      // +
      // 3 x 1024 + 1024 h + 3 h + h^2 + 3 h + h^2 + h at h = 1280.
      {"uce-33l", 661'823'232},
      // Main models, without multi-token prediction and without selection biases of routers.
      {"deepseek-v2-lite", 15'706'484'224},
      {"deepseek-v2", 235'741'434'880},
      {"deepseek-v3", 671'026'404'352},
      {"kimi-k2", 1'026'408'209'408},
      {"glm-4.5", 352'797'814'784},
      {"glm-4.5-air", 106'852'245'504},
      {"gpt-oss-20b", 20'914'757'184},
      {"gpt-oss-120b", 116'829'156'672},
      {"llama-4-scout", 107'769'861'120},
      {"llama-4-maverick", 400'711'848'960},
      {"gemma-2-2b", 2'614'341'888},
      {"gemma-2-9b", 9'241'705'984},
      {"gemma-2-27b", 27'227'128'320},
      // h (262208 + 1) + L (q, o 2 h d a, k, v 2 h d g, 3 h f, 4 h + 2 d); 1B with 262144 tokens.
      {"gemma-3-1b", 999'885'952},
      {"gemma-3-4b", 3'880'263'168},
      {"gemma-3-12b", 11'766'034'176},
      {"gemma-3-27b", 27'009'346'304},
      // 4 h^2 (32B: 2 h^2 + 2 h 1024) + 3 h f + 2 h + a gamma for each column of queries and keys.
      {"olmo-2-7b", 7'298'617'344},
      {"olmo-2-13b", 13'716'198'400},
      {"olmo-2-32b", 32'234'279'936},
      // One norm a layer; Phi-2 has 51200 biases of its head.
      {"command-r-35b", 34'980'831'232},
      {"falcon-7b", 6'921'720'704},
      {"phi-2", 2'779'683'840},
      {"granite-3-2b", 2'533'531'648},
      {"granite-3-8b", 8'170'848'256},
      {"starcoder2-3b", 3'030'371'328},
      {"starcoder2-7b", 7'173'923'840},
      {"starcoder2-15b", 15'957'889'024},
      {"stablelm-2-1.6b", 1'644'515'328},
      {"stablelm-3b-4e1t", 2'795'443'200},
      // 28 (64 x 3 h 2560 + 64 h + 3 h 20480 + h + attention 29,364,736 + 2 h) + 2 x 151936 h + h.
      {"qwen2-57b-a14b", 57'408'658'944},
      // operator_graph_test.cpp
      {"transformer-2-layers", 71'598'080},
      {"inception-v3", 23'834'568},
      {"resnet-50", 25'557'032},
      {"vgg-16", 138'357'544},
      {"alexnet", 60'965'224}};  // operator_graph_test.cpp
  std::size_t found = 0;
  for (const ZooEntry& entry : zoo()) {
    INFO(entry.spec.name);
    REQUIRE(expected.contains(entry.spec.name));
    CHECK(entry.parameters == expected.at(entry.spec.name));
    ++found;
  }
  CHECK(found == expected.size());
}

TEST_CASE("every model of the zoo has its own name, a source and usable defaults") {
  for (const ZooEntry& entry : zoo()) {
    INFO(entry.spec.name);
    const auto found = find_model(entry.spec.name);
    REQUIRE(found.ok());
    CHECK(*found == entry.spec);
    CHECK_FALSE(entry.spec.source.empty());
    CHECK(build_graph(*found, {.seq_len = found->default_seq_len}).ok());
  }
  CHECK(find_model("gpt2-1.5b")->default_seq_len * find_model("gpt2-1.5b")->default_global_batch ==
        512 * 1024);
}

TEST_CASE("the zoo is listed by family, smallest first") {
  const std::vector<ZooEntry> entries = zoo();
  CHECK(entries.front().spec.name == "gpt2-124m");
  CHECK(entries[4].spec.name == "gpt3-175b");
  CHECK(entries[5].spec.name == "opt-125m");
  CHECK(entries[entries.size() - 6].spec.name == "chain");
  CHECK(entries[entries.size() - 5].spec.name == "inception-v3");
  CHECK(entries[entries.size() - 4].spec.name == "resnet-50");
  CHECK(entries[entries.size() - 2].spec.name == "transformer-2-layers");
  CHECK(entries.back().spec.name == "vgg-16");
}

TEST_CASE("an unknown model names the nearest and the list") {
  const auto problem = [](const std::string& text) { return find_model(text).problems().at(0); };
  CHECK(problem("gpt2-1.6b").fix == "did you mean gpt2-1.5b? `planner models` lists all");
  CHECK(problem("gpt2-1.6b").expected.find("gpt2-774m") != std::string::npos);
  CHECK(problem("gpt2-1.6b").expected.find("mlp-mnist") == std::string::npos);
  CHECK(problem("Qwen/Qwen3-88B").fix.starts_with("did you mean qwen3-8b?"));
  CHECK(problem("something else").fix == "`planner models` lists them");
  CHECK(problem("no-such-folder/config.json").found == "\"no-such-folder/config.json\"");
  CHECK(problem("").where == "--model");
  CHECK(problem(std::string(100'000, 'x')).found.size() < 300);
}

TEST_CASE("a model is found by the names that papers and Hugging Face give it") {
  const auto meant = [](const std::string& typed) { return find_model(typed)->name; };
  CHECK(meant("Llama-3-8B") == "llama3-8b");
  CHECK(meant("meta-llama/Meta-Llama-3-8B") == "llama3-8b");
  CHECK(meant("meta-llama/Llama-3.1-8B-Instruct") == "llama3.1-8b");
  CHECK(meant("meta-llama/Llama-2-7b-chat-hf") == "llama2-7b");
  CHECK(meant("Llama-3.3-70B-Instruct") == "llama3.1-70b");
  CHECK(meant("openai-community/gpt2-xl") == "gpt2-1.5b");
  CHECK(meant("GPT-2") == "gpt2-124m");
  CHECK(meant("mistralai/Mixtral-8x7B-v0.1") == "mixtral-8x7b");
  CHECK(meant("Qwen/Qwen3-8B-Base") == "qwen3-8b");
  CHECK(meant("EleutherAI/pythia-1.4b-deduped") == "pythia-1.4b");
  CHECK(meant("BERT-base") == "bert-base");
  CHECK_FALSE(find_model("mistralai/Mistral-7B-v0.3").ok());  // another vocabulary
  CHECK_FALSE(find_model("llama").ok());
}

TEST_CASE("every other name means a model of the zoo, and none is the name of another") {
  std::set<std::string> shipped;
  for (const ZooEntry& e : zoo()) {
    shipped.insert(e.spec.name);
    CHECK(zoo_name(e.spec.name) == e.spec.name);
  }
  for (const auto& [name, model] : model_names()) {
    INFO(name);
    CHECK(shipped.contains(model));
    CHECK_FALSE(shipped.contains(name));
    CHECK(zoo_name(name) == model);
    CHECK(find_model(name)->name == model);
  }
}

TEST_CASE("a config.json is found by its path and by its folder, and called by the folder") {
  const Folder folder("planner_zoo_test_named");
  const std::string file = folder.write("config.json", kConfig);
  for (const std::string& path : {file, folder.path(), folder.path() + "/"}) {
    INFO(path);
    const auto spec = find_model(path);
    REQUIRE(spec.ok());
    CHECK(spec->layers == 3);
    CHECK(spec->name == "planner_zoo_test_named");
  }
  CHECK(find_model(folder.write("small.json", kConfig))->name == "small");
}

TEST_CASE("a folder without config.json and a folder called config.json are refused") {
  const Folder folder("planner_zoo_test_empty");
  CHECK(find_model(folder.path()).problems().at(0).found == "none in it");
  fs::create_directory(folder.path() + "/config.json");
  CHECK_FALSE(find_model(folder.path()).ok());
}

TEST_CASE("a zoo folder takes precedence over the embedded zoo") {
  const Folder folder("planner_zoo_test_override");
  folder.write("gpt2-124m.json", kConfig);
  CHECK(find_model("gpt2-124m", folder.path())->layers == 3);
  CHECK(find_model("gpt2-355m", folder.path())->layers == 24);
}
