// fuzz_replay CORPUS [TARGET]: every file of the corpus through its target, CORPUS/TARGET/*. Ends
// with 1 where a target reads none of its files, or a folder has no target; a broken promise ends
// it by a signal, after the name of the file.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "tests/fuzz/targets.hpp"

namespace {

namespace fs = std::filesystem;

bool replay(const fuzz::Target& target, const fs::path& folder) {
  std::vector<fs::path> files;
  if (fs::is_directory(folder))
    for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  std::ranges::sort(files);
  int read = 0;
  for (const fs::path& file : files) {
    fmt::print(stderr, "{}\n", file.string());
    std::stringstream bytes;
    bytes << std::ifstream(file, std::ios::binary).rdbuf();
    read += target.run(bytes.str()) ? 1 : 0;
  }
  fmt::print("{}: {} files, {} of them read\n", target.name, files.size(), read);
  return read > 0;
}

}  // namespace

int main(int count, char** words) {
  if (count < 2) return 2;
  const fs::path corpus = words[1];
  bool all = true;
  for (const fuzz::Target& target : fuzz::targets()) {
    if (count > 2 && target.name != words[2]) continue;
    all = replay(target, corpus / target.name) && all;
  }
  for (const auto& folder : fs::directory_iterator(corpus))
    if (folder.is_directory() && fuzz::find_target(folder.path().filename().string()) == nullptr) {
      fmt::print("{}: no such target\n", folder.path().string());
      all = false;
    }
  return all ? 0 : 1;
}
