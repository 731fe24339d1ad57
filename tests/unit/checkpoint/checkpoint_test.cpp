#include "exec/checkpoint/checkpoint.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/catch.hpp"

using namespace exec;
namespace fs = std::filesystem;

namespace {

// A folder of its own, gone at the end.
class Temporary {
 public:
  Temporary() {
    std::string name = (fs::temp_directory_path() / "checkpoint-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~Temporary() { fs::remove_all(path_); }
  std::string path() const { return path_ + "/kept"; }

 private:
  std::string path_;
};

const TrainedOn kWhat{{"model", "tiny"}, {"seed", "1"}};

// The memory of a rank: two buffers of odd sizes.
struct Memory {
  explicit Memory(int value) : a(37, std::byte(value)), b(1000, std::byte(value + 1)) {}
  RankState state(std::vector<double> loss = {}) { return {{a, b}, std::move(loss)}; }
  std::vector<std::byte> a, b;
};

void keep(CheckpointFolder& folder, std::int64_t steps, int value) {
  REQUIRE(folder.begin(steps).ok());
  for (int rank = 0; rank < 2; ++rank) {
    Memory memory(value + 10 * rank);
    REQUIRE(folder.write(rank, memory.state({0.5, static_cast<double>(steps)})).ok());
  }
  REQUIRE(folder.commit().ok());
}

std::string refusal(const std::string& path, const TrainedOn& what = kWhat, int ranks = 2) {
  const auto folder = CheckpointFolder::open(path, what, ranks);
  return folder.ok() ? "" : core::to_text(folder.problems());
}

std::size_t entries(const std::string& path) {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(path), fs::directory_iterator()));
}

}  // namespace

TEST_CASE("what a rank kept comes back, of the last complete step") {
  const Temporary dir;
  {
    auto folder = CheckpointFolder::open(dir.path(), kWhat, 2);
    REQUIRE(folder.ok());
    CHECK(folder->steps_done() == 0);
    keep(*folder, 1, 5);
    keep(*folder, 12, 7);
  }
  const auto folder = CheckpointFolder::open(dir.path(), kWhat, 2);
  REQUIRE(folder.ok());
  CHECK(folder->steps_done() == 12);
  Memory memory(0), expected(17);
  RankState state = memory.state();
  REQUIRE(folder->load(1, state).ok());
  CHECK(memory.a == expected.a);
  CHECK(memory.b == expected.b);
  CHECK(state.loss == std::vector<double>{0.5, 12.0});
}

TEST_CASE("the two latest steps are kept, and nothing else") {
  const Temporary dir;
  auto folder = CheckpointFolder::open(dir.path(), kWhat, 2);
  REQUIRE(folder.ok());
  for (int step = 1; step <= 5; ++step) keep(*folder, step, step);
  CHECK(entries(dir.path()) == 3);  // and the lock
  CHECK(fs::exists(dir.path() + "/step-00000004"));
  CHECK(fs::exists(dir.path() + "/step-00000005"));
}

TEST_CASE("a step that was never committed does not count, and is removed") {
  const Temporary dir;
  {
    auto folder = CheckpointFolder::open(dir.path(), kWhat, 2);
    REQUIRE(folder.ok());
    keep(*folder, 1, 5);
  }
  fs::copy(dir.path() + "/step-00000001", dir.path() + "/.step-00000002.partial");  // killed
  {
    auto folder = CheckpointFolder::open(dir.path(), kWhat, 2);
    REQUIRE(folder.ok());
    CHECK(folder->steps_done() == 1);
    CHECK(entries(dir.path()) == 2);
    REQUIRE(folder->begin(2).ok());  // ends here by an exception
  }
  CHECK(entries(dir.path()) == 2);
}

TEST_CASE("a damaged or truncated file, or another run's, is refused by name") {
  const Temporary dir;
  {
    auto folder = CheckpointFolder::open(dir.path(), kWhat, 2);
    REQUIRE(folder.ok());
    keep(*folder, 1, 5);
  }
  CHECK(refusal(dir.path()) == "");
  CHECK(refusal(dir.path(), {{"model", "tiny"}, {"seed", "2"}}).find("seed: expected 2, found 1") !=
        std::string::npos);
  CHECK(refusal(dir.path(), kWhat, 3).find("3 ranks") != std::string::npos);

  const std::string file = dir.path() + "/step-00000001/rank-0001";
  const auto size = fs::file_size(file);
  for (std::uintmax_t at = 0; at < size; at += 97) {  // any flipped bit
    std::fstream f(file, std::ios::in | std::ios::out | std::ios::binary);
    const auto flip = [&] {
      f.seekg(static_cast<std::streamoff>(at));
      const auto byte = static_cast<char>(f.get() ^ 1);
      f.seekp(static_cast<std::streamoff>(at));
      f.put(byte).flush();
    };
    flip();
    CAPTURE(at);
    CHECK(refusal(dir.path()).find("rank-0001: expected what was written") != std::string::npos);
    flip();
  }
  CHECK(refusal(dir.path()) == "");
  fs::resize_file(file, size - 1);
  CHECK(refusal(dir.path()).find("rank-0001: expected a file of") != std::string::npos);
  fs::remove(file);
  CHECK(refusal(dir.path()).find("rank-0001") != std::string::npos);
  std::ofstream(dir.path() + "/step-00000001/manifest.json") << "{";
  CHECK(refusal(dir.path()).find("manifest.json") != std::string::npos);
}

TEST_CASE("a folder that another run uses is refused") {
  const Temporary dir;
  const auto folder = CheckpointFolder::open(dir.path(), kWhat, 2);
  REQUIRE(folder.ok());
  CHECK(refusal(dir.path()).find("in use") != std::string::npos);
}

TEST_CASE("a folder that cannot be made is refused") {
  CHECK(refusal("/dev/null/kept").find("--checkpoint-dir /dev/null/kept") != std::string::npos);
}
