#include "exec/checkpoint/checkpoint.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "core/file.hpp"
#include "core/json.hpp"
#include "exec/checkpoint/verify.hpp"
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

// A folder that holds these steps, of values 5 and up.
void keep_steps(const std::string& path, std::vector<std::int64_t> steps) {
  auto folder = CheckpointFolder::open(path, kWhat, 2);
  REQUIRE(folder.ok());
  for (std::size_t i = 0; i < steps.size(); ++i) keep(*folder, steps[i], 5 + static_cast<int>(i));
}

std::string step(const std::string& path, int steps) {
  return fmt::format("{}/step-{:08}", path, steps);
}

bool says(const std::string& text, const std::string& part) {
  INFO(text);
  CHECK(text.find(part) != std::string::npos);
  return text.find(part) != std::string::npos;
}

void flip(const std::string& file, std::uintmax_t at, int mask) {
  std::fstream f(file, std::ios::in | std::ios::out | std::ios::binary);
  f.seekg(static_cast<std::streamoff>(at));
  const auto byte = static_cast<char>(f.get() ^ mask);
  f.seekp(static_cast<std::streamoff>(at));
  f.put(byte).flush();
}

// The manifest's text after a change to it, its digest left as it was.
void change_manifest(const std::string& folder, const std::string& from, const std::string& to) {
  std::string text = core::read_file(folder + "/manifest.json", 1 << 20).value();
  const auto at = text.find(from);
  REQUIRE(at != std::string::npos);
  std::ofstream(folder + "/manifest.json") << text.replace(at, from.size(), to);
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
    flip(file, at, 1);
    CAPTURE(at);
    CHECK(refusal(dir.path()).find("rank-0001: expected ") != std::string::npos);
    flip(file, at, 1);
  }
  CHECK(refusal(dir.path()) == "");
  fs::resize_file(file, size - 1);
  CHECK(refusal(dir.path()).find("rank-0001: expected a file of") != std::string::npos);
  fs::remove(file);
  CHECK(refusal(dir.path()).find("rank-0001") != std::string::npos);
  std::ofstream(dir.path() + "/step-00000001/manifest.json") << "{";
  CHECK(refusal(dir.path()).find("manifest.json") != std::string::npos);
}

TEST_CASE("damaged steps are passed over where asked, and kept under another name") {
  const Temporary dir;
  keep_steps(dir.path(), {1, 2});
  std::vector<std::string> told;
  const SetAside tell = [&](const core::Problems& damage, const std::string& name) {
    told.push_back(name.substr(dir.path().size() + 1) + ": " + core::to_text(damage));
  };
  const auto reached = [&](const TrainedOn& what = kWhat) {
    const auto folder = CheckpointFolder::open(dir.path(), what, 2, tell);
    return folder.ok() ? std::to_string(folder->steps_done()) : core::to_text(folder.problems());
  };
  CHECK(reached() == "2");  // nothing is damaged
  CHECK(told.empty());

  flip(step(dir.path(), 2) + "/rank-0001", 100, 4);
  CHECK(says(reached({{"model", "tiny"}, {"seed", "2"}}), "seed: expected 2, found 1"));
  CHECK(told.empty());
  CHECK(reached() == "1");
  REQUIRE(told.size() == 1);
  CHECK(says(told[0], "damaged-step-00000002: "));
  CHECK(says(told[0], "rank-0001: expected "));
  CHECK(fs::exists(dir.path() + "/damaged-step-00000002/rank-0000"));
  CHECK(reached() == "1");

  // Step 2 is written again and damaged again: the second damaged folder gets a name of its own.
  {
    auto folder = CheckpointFolder::open(dir.path(), kWhat, 2, tell);
    REQUIRE(folder.ok());
    keep(*folder, 2, 9);
  }
  fs::remove(step(dir.path(), 2) + "/manifest.json");
  CHECK(reached() == "1");
  CHECK(fs::exists(dir.path() + "/damaged-step-00000002.2/rank-0000"));

  // Nothing is whole: nothing is renamed.
  flip(step(dir.path(), 1) + "/rank-0000", 100, 4);
  CHECK(says(reached(), "rank-0000: expected "));
  CHECK(fs::exists(step(dir.path(), 1)));
  CHECK(told.size() == 2);
}

TEST_CASE("a folder that another run uses is refused") {
  const Temporary dir;
  const auto folder = CheckpointFolder::open(dir.path(), kWhat, 2);
  REQUIRE(folder.ok());
  CHECK(refusal(dir.path()).find("in use") != std::string::npos);
}

TEST_CASE("a lock that is a link to another file is refused") {
  const Temporary dir;
  fs::create_directories(dir.path());
  fs::create_symlink(dir.path() + "/elsewhere", dir.path() + "/.lock");
  CHECK(says(refusal(dir.path()), "a folder that takes new files"));
  CHECK_FALSE(fs::exists(dir.path() + "/elsewhere"));
}

TEST_CASE("a folder that cannot be made is refused") {
  CHECK(refusal("/dev/null/kept").find("--checkpoint-dir /dev/null/kept") != std::string::npos);
}

// A checksum of independent lanes of words, each xor and multiply, loses these: twice bit 63 of
// words 32 bytes apart.
TEST_CASE("two flips that cancel each other in a weaker sum are damage") {
  const Temporary dir;
  keep_steps(dir.path(), {1});
  const std::string file = step(dir.path(), 1) + "/rank-0000";
  for (std::uintmax_t at = 7; at + 32 < fs::file_size(file); at += 8) {
    CAPTURE(at);
    flip(file, at, 0x80), flip(file, at + 32, 0x80);
    CHECK(says(refusal(dir.path()), "rank-0000: expected "));
    flip(file, at, 0x80), flip(file, at + 32, 0x80);
  }
  CHECK(refusal(dir.path()) == "");
}

TEST_CASE("a file of another rank, step or run is refused by name") {
  const Temporary dir, other;
  keep_steps(dir.path(), {1, 2});
  const std::string mine = step(dir.path(), 2) + "/rank-0000";
  const auto replaced_by = [&](const std::string& file) {
    fs::copy_file(file, mine, fs::copy_options::overwrite_existing);
    return refusal(dir.path());
  };
  CHECK(says(replaced_by(step(dir.path(), 2) + "/rank-0001"),
             "rank-0000: expected the state of rank 0 after step 2, found that of rank 1 after "
             "step 2; --skip-damaged"));
  CHECK(says(replaced_by(step(dir.path(), 1) + "/rank-0000"), "found that of rank 0 after step 1"));
  {
    auto folder = CheckpointFolder::open(other.path(), {{"model", "large"}}, 2);
    REQUIRE(folder.ok());
    keep(*folder, 2, 6);
  }
  CHECK(says(replaced_by(step(other.path(), 2) + "/rank-0000"),
             "expected the state of this run, found that of another one"));
}

TEST_CASE("a step under another step's name is refused") {
  const Temporary dir;
  keep_steps(dir.path(), {1});
  fs::rename(step(dir.path(), 1), step(dir.path(), 9001));
  CHECK(says(refusal(dir.path()), "step-00009001/manifest.json:"));
  CHECK(says(refusal(dir.path()),
             "/steps_done: expected 9001, as its folder is called, found 1; give the folder its "
             "own name back, or remove it"));
}

TEST_CASE("a manifest that was changed is refused, and one of another version by its version") {
  const Temporary dir;
  keep_steps(dir.path(), {1});
  const std::string folder = step(dir.path(), 1);
  const std::string whole = core::read_file(folder + "/manifest.json", 1 << 20).value();
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::ofstream(folder + "/manifest.json") << whole;
    change_manifest(folder, from, to);
    return refusal(dir.path());
  };
  CHECK(says(changed("\"steps_done\": 1", "\"steps_done\": 7"),
             "manifest.json: expected what was"));
  CHECK(says(changed("\"seed\": \"1\"", "\"seed\": \"2\""),
             "manifest.json: expected what was"));
  for (const char* version : {"checkpoint/1", "checkpoint/99"})
    CHECK(says(changed("checkpoint/2", version),
               fmt::format("manifest.json: expected checkpoint/2, found \"{}\"; go on with the "
                           "version of planner that wrote it", version)));
  CHECK(says(changed("checkpoint/2", "plan/1"), "found \"plan/1\"; --skip-damaged"));
  CHECK(says(changed("\"schema\"", "\"schemes\""), "expected checkpoint/2, found none"));
}

TEST_CASE("a forged file that claims more losses than it holds is refused without being believed") {
  const Temporary dir;
  keep_steps(dir.path(), {1});
  const std::string folder = step(dir.path(), 1), file = folder + "/rank-0000";
  constexpr std::uintmax_t kLosses = 40;  // after magic, rank, step and 16 bytes of digest
  flip(file, kLosses + 6, 0x7F);
  const std::string bytes = core::read_file(file, 1 << 20).value();
  Manifest manifest = read_manifest(folder + "/manifest.json", 1).value();
  manifest.files[0].digest = digest_of(bytes);
  std::ofstream(folder + "/manifest.json") << manifest_text(manifest);
  const auto opened = CheckpointFolder::open(dir.path(), kWhat, 2);
  REQUIRE(opened.ok());
  Memory memory(0);
  RankState state = memory.state();
  const core::Status loaded = opened->load(0, state);
  REQUIRE_FALSE(loaded.ok());
  CHECK(says(core::to_text(loaded.problems()), "rank-0000: expected 1037 bytes of this plan's"));
}

TEST_CASE("what is verified is named step by step, with its problems") {
  const Temporary dir;
  CHECK_FALSE(verify(dir.path()).ok());
  keep_steps(dir.path(), {3, 4});
  flip(step(dir.path(), 3) + "/rank-0001", 300, 1);
  const auto steps = verify(dir.path());
  REQUIRE(steps.ok());
  REQUIRE(steps->size() == 2);
  const HeldStep &damaged = steps->front(), &whole = steps->back();
  CHECK(damaged.steps_done == 3);
  REQUIRE(damaged.problems.size() == 1);
  CHECK(damaged.problems[0].where == step(dir.path(), 3) + "/rank-0001");
  CHECK(whole.problems.empty());
  CHECK(whole.steps_done == 4);
  CHECK(whole.ranks == 2);
  CHECK(whole.trained_on == kWhat);
  CHECK(whole.bytes.value() ==
        static_cast<std::int64_t>(fs::file_size(step(dir.path(), 4) + "/rank-0000") * 2));
  const auto running = CheckpointFolder::open(dir.path(), kWhat, 2);
  REQUIRE(running.ok());
  CHECK(says(core::to_text(verify(dir.path()).problems()), "in use"));
}

// Known answers of XXH3_128bits with seed 0, from xxhsum -H128.
TEST_CASE("digests are XXH3's, however the bytes are cut") {
  CHECK(to_text(digest_of("")) == "99aa06d3014798d86001c324468d497f");
  CHECK(digest_in(to_text(digest_of("abc"))) == digest_of("abc"));
  for (const char* no : {"", "99aa06d3014798d86001c324468d497", "99aa06d3014798d86001c324468d497g",
                         "-9aa06d3014798d86001c324468d497f"})
    CHECK(!digest_in(no));
  std::string text(1000, 'x');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 7);
  for (const std::size_t piece : {1, 31, 256, 999}) {
    Digester digester;
    for (std::size_t at = 0; at < text.size(); at += piece) {
      const std::string_view cut = std::string_view(text).substr(at, piece);
      digester.add(std::as_bytes(std::span(cut.data(), cut.size())));
    }
    CHECK(digester.value() == digest_of(text));
  }
}
