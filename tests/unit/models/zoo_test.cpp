#include "models/zoo.hpp"

#include <filesystem>
#include <fstream>
#include <map>

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
  // GPT-2 as released; GPT-3: 96 (12 h^2 + 13 h) + (50,257 + 2,048 + 2) h at h = 12,288 =
  // 173,961,510,912 + 642,748,416. Chain: 64 (1024^2 + 1024). MLP: chain_test.cpp.
  const std::map<std::string, std::int64_t> expected{
      {"gpt2-124m", 124'439'808},     {"gpt2-355m", 354'823'168},
      {"gpt2-774m", 774'030'080},     {"gpt2-1.5b", 1'557'611'200},
      {"gpt3-175b", 174'604'259'328}, {"mlp-mnist", 669'706},
      {"chain", 67'174'400}};
  std::map<std::string, std::int64_t> found;
  for (const ZooEntry& entry : zoo()) found[entry.spec.name] = entry.parameters;
  CHECK(found == expected);
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
  CHECK(entries.back().spec.name == "chain");
}

TEST_CASE("an unknown model names the nearest and the list") {
  const auto problem = [](const std::string& text) { return find_model(text).problems().at(0); };
  CHECK(problem("gpt2-1.6b").fix == "did you mean gpt2-1.5b?");
  CHECK(problem("gpt2-1.6b").expected.find("mlp-mnist") != std::string::npos);
  CHECK(problem("no-such-folder/config.json").found == "\"no-such-folder/config.json\"");
  CHECK(problem("").where == "--model");
  CHECK(problem(std::string(100'000, 'x')).found.size() < 300);
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
