#include "core/folder.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "core/file.hpp"
#include "tests/catch.hpp"

using namespace core;
namespace fs = std::filesystem;

namespace {

class Work {
 public:
  Work() {
    std::string name = (fs::temp_directory_path() / "planner-folder-test-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;
  ~Work() { fs::remove_all(path_); }
  std::string at(const std::string& name) const { return (path_ / name).string(); }
  std::size_t entries() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(path_), fs::directory_iterator()));
  }

 private:
  fs::path path_;
};

Result<NewFolder> folder(const std::string& path) {
  return NewFolder::at(path, [](std::string_view name) { return name.ends_with(".et"); });
}

std::string text_of(const std::string& path) { return read_file(path, 1000).value(); }

}  // namespace

TEST_CASE("a folder appears when it is complete, and only then") {
  const Work work;
  {
    NewFolder made = folder(work.at("traces")).value();
    REQUIRE(made.write("a.et", "one").ok());
    CHECK_FALSE(fs::exists(work.at("traces")));
    REQUIRE(made.commit().ok());
  }
  CHECK(text_of(work.at("traces/a.et")) == "one");
  CHECK(work.entries() == 1);
}

TEST_CASE("a folder that is left is gone, and what was there stays") {
  const Work work;
  for (const char* text : {"old", "new"}) {
    NewFolder made = folder(work.at("traces/")).value();
    REQUIRE(made.write("a.et", text).ok());
    if (text == std::string_view("old")) REQUIRE(made.commit().ok());
  }
  CHECK(text_of(work.at("traces/a.et")) == "old");
  CHECK(work.entries() == 1);
}

TEST_CASE("what a killed process of this id left blocks no new folder") {
  const Work work;
  for (int n = 0; n < 200; ++n)
    fs::create_directory(work.at(".planner-" + std::to_string(::getpid()) + '-' +
                                 std::to_string(n) + ".folder"));
  auto made = folder(work.at("traces"));
  REQUIRE(made.ok());
  REQUIRE(made->write("a.et", "one").ok());
  REQUIRE(made->commit().ok());
  CHECK(text_of(work.at("traces/a.et")) == "one");
}

TEST_CASE("a folder of the same kind is replaced whole, another one refused") {
  const Work work;
  const auto write = [&](const char* name) {
    NewFolder made = folder(work.at("traces")).value();
    REQUIRE(made.write(name, name).ok());
    REQUIRE(made.commit().ok());
  };
  write("a.et");
  write("b.et");
  CHECK_FALSE(fs::exists(work.at("traces/a.et")));
  CHECK(text_of(work.at("traces/b.et")) == "b.et");
  REQUIRE(write_atomically(work.at("traces/notes.txt"), "mine").ok());
  const auto refused = folder(work.at("traces"));
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.problems().front().found == "\"notes.txt\" in it");
  const auto file = folder(work.at("traces/b.et"));
  REQUIRE_FALSE(file.ok());
  CHECK(file.problems().front().found == "a file");
  const auto absent = folder(work.at("no/such/folder"));
  REQUIRE_FALSE(absent.ok());
  CHECK(absent.problems().front().expected == "its folder to be there");
  CHECK(work.entries() == 1);
}
