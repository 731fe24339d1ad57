#include "tools/probe/files.hpp"

#include <filesystem>
#include <fstream>
#include <system_error>

#include "tools/probe/worker.hpp"
#include "tests/catch.hpp"

namespace fs = std::filesystem;

namespace {

std::size_t entries(const std::string& folder) {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

}  // namespace

TEST_CASE("a whole file replaces the old one and leaves no temporary") {
  const probe::TemporaryFolder folder;
  const std::string path = folder.path() + "/result.json";
  probe::write_whole(path, std::string(100000, 'a'));
  probe::write_whole(path, "short");
  CHECK(probe::read_or_empty(path) == "short");
  CHECK(entries(folder.path()) == 1);
}

TEST_CASE("a write that cannot be finished leaves the old file and nothing else") {
  const probe::TemporaryFolder folder;
  const std::string path = folder.path() + "/taken";
  fs::create_directory(path);  // a rename onto a folder fails
  CHECK_THROWS_AS(probe::write_whole(path, "x"), std::system_error);
  CHECK(entries(folder.path()) == 1);
  CHECK_THROWS_AS(probe::check_writable(path), std::system_error);
  CHECK_THROWS_AS(probe::check_writable(folder.path() + "/none/x"), std::system_error);
}

TEST_CASE("checking a target for writing creates nothing") {
  const probe::TemporaryFolder folder;
  probe::check_writable(folder.path() + "/new.json");
  CHECK(entries(folder.path()) == 0);
}

TEST_CASE("a target that is no regular file is written directly") {
  CHECK(probe::is_special("/dev/null"));
  CHECK_NOTHROW(probe::write_whole("/dev/null", "text"));
  CHECK(fs::is_character_file("/dev/null"));
}

TEST_CASE("a temporary folder is private and goes with its owner") {
  std::string path;
  {
    const probe::TemporaryFolder folder;
    path = folder.path();
    CHECK((fs::status(path).permissions() & fs::perms::all) == fs::perms::owner_all);
    std::ofstream(path + "/file") << "x";
  }
  CHECK_FALSE(fs::exists(path));
}

TEST_CASE("a worker records a failing part and goes on, and fails when every part did") {
  const probe::TemporaryFolder folder;
  const auto fails = []() -> probe::Json { throw std::runtime_error("broken"); };
  probe::Worker mixed({"mixed", folder.path(), 60.0, 0, false, 2});
  mixed.part("bad", fails);
  mixed.part("good", [] { return probe::Json(7); });
  CHECK_NOTHROW(mixed.finish());
  CHECK(probe::read_or_empty(folder.path() + "/mixed.json") ==
        "{\n  \"bad\": {\"error\": \"broken\"},\n  \"good\": 7,\n  \"failed_parts\": 1\n}\n");

  probe::Worker broken({"broken", folder.path(), 60.0, 0, false, 2});
  broken.part("bad", fails);
  CHECK_THROWS(broken.finish());
}

TEST_CASE("a worker out of time skips what is left and says so") {
  const probe::TemporaryFolder folder;
  probe::Worker worker({"late", folder.path(), -1.0, 0, false, 2});
  bool ran = false;
  worker.part("part", [&] {
    ran = true;
    return probe::Json(1);
  });
  CHECK_FALSE(ran);
  CHECK(worker.data()["part"].has("skipped"));
}

TEST_CASE("a worker's command line carries every setting") {
  const probe::WorkerOptions sent{"gemm", "/tmp/x", 12.5, 3, true, 8};
  const auto got = probe::worker_options(probe::to_arguments(sent));
  CHECK(got.section == sent.section);
  CHECK(got.folder == sent.folder);
  CHECK(got.seconds == sent.seconds);
  CHECK(got.device == sent.device);
  CHECK(got.quick == sent.quick);
  CHECK(got.nccl_ranks == sent.nccl_ranks);
}
