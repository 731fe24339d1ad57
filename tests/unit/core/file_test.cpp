#include "core/file.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "tests/catch.hpp"

using namespace core;
namespace fs = std::filesystem;

namespace {

// A folder of the test's own, removed at its end.
class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "planner-file-test-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { fs::remove_all(path_); }

  std::string file(const std::string& name) const { return (path_ / name).string(); }
  std::size_t entries() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(path_), fs::directory_iterator()));
  }

 private:
  fs::path path_;
};

std::string content(const std::string& path) {
  const auto text = read_file(path, 1 << 20);
  REQUIRE(text.ok());
  return *text;
}

// Writes beyond `bytes` fail with EFBIG while it lives: a full disk, without needing one.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    previous_handler_ = std::signal(SIGXFSZ, SIG_IGN);
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &previous_) == 0);
    rlimit limit = previous_;
    limit.rlim_cur = bytes;
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &previous_);
    std::signal(SIGXFSZ, previous_handler_);
  }

 private:
  rlimit previous_{};
  void (*previous_handler_)(int) = SIG_DFL;
};

}  // namespace

TEST_CASE("a file written atomically holds the text, and nothing is left beside it") {
  const Folder folder;
  const std::string path = folder.file("plan.json");
  const std::string large(3'000'000, 'x');
  REQUIRE(write_atomically(path, "first").ok());
  CHECK(content(path) == "first");
  REQUIRE(write_atomically(path, large).ok());
  CHECK(read_file(path, large.size()).value() == large);
  CHECK(folder.entries() == 1);
}

TEST_CASE("rewriting a file keeps its permissions and the links to it") {
  const Folder folder;
  const std::string path = folder.file("real"), link = folder.file("link");
  REQUIRE(write_atomically(path, "old").ok());
  fs::permissions(path, fs::perms(0640));
  fs::create_symlink(path, link);
  REQUIRE(write_atomically(link, "new").ok());
  CHECK(fs::is_symlink(link));
  CHECK(content(path) == "new");
  CHECK(fs::status(path).permissions() == fs::perms(0640));
}

TEST_CASE("a write that fails half-way leaves the old file, removes its temporary and is exit 3") {
  const Folder folder;
  const std::string path = folder.file("plan.json");
  REQUIRE(write_atomically(path, "old").ok());
  const std::string large(100'000, 'x');
  Status status = Done{};
  {
    const FileSizeLimit limit(4096);
    status = write_atomically(path, large);
  }
  REQUIRE(!status.ok());
  CHECK(exit_code(status.problems()) == 3);
  CHECK(content(path) == "old");
  CHECK(folder.entries() == 1);
}

// Process ids repeat, in a container at each start.
TEST_CASE("temporaries that a killed process of this id left block no write") {
  const Folder folder;
  const auto stale = [&](int n) {
    return folder.file(".planner-" + std::to_string(::getpid()) + '-' + std::to_string(n) + ".tmp");
  };
  for (int n = 0; n < 500; ++n) REQUIRE(write_atomically(stale(n), "left").ok());
  CHECK(check_writable(folder.file("a")).ok());
  CHECK(write_atomically(folder.file("a"), "whole").ok());
  CHECK(content(folder.file("a")) == "whole");
  CHECK(content(stale(0)) == "left");
  CHECK(folder.entries() == 501);
}

TEST_CASE("a full device is a failed write, exit 3") {
  REQUIRE(check_writable("/dev/full").ok());
  const Status status = write_atomically("/dev/full", "text");
  REQUIRE(!status.ok());
  CHECK(exit_code(status.problems()) == 3);
  CHECK(to_text(status.problems()[0]) ==
        "/dev/full: expected to write it whole, found No space left on device; "
        "free some space, or write elsewhere");
}

TEST_CASE("a pipe is written directly") {
  const Folder folder;
  const std::string pipe = folder.file("pipe");
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  REQUIRE(check_writable(pipe).ok());
  std::string got;
  std::thread reader([&] { got = read_file(pipe, 1000).value(); });
  const Status status = write_atomically(pipe, "through");
  reader.join();
  CHECK(status.ok());
  CHECK(got == "through");
  CHECK(fs::is_fifo(pipe));
}

TEST_CASE("an open descriptor under /dev/fd is appended to, never replaced") {
  const Folder folder;
  const std::string path = folder.file("log");
  REQUIRE(write_atomically(path, "before ").ok());
  const int fd = ::open(path.c_str(), O_WRONLY | O_APPEND);
  REQUIRE(fd >= 0);
  REQUIRE(write_atomically("/dev/fd/" + std::to_string(fd), "after").ok());
  ::close(fd);
  CHECK(content(path) == "before after");
}

TEST_CASE("a target that cannot be opened is found before the work, exit 2") {
  const Folder folder;
  const std::string missing = folder.file("no/such/plan.json");
  const std::string cases[] = {"", folder.file("."), missing, folder.file("plan.json") + "/",
                               "/proc/plan.json",  // where even root makes no file
                               folder.file(std::string(300, 'n'))};
  for (const std::string& path : cases) {
    CAPTURE(path);
    for (const Status& status : {check_writable(path), write_atomically(path, "x")}) {
      REQUIRE(!status.ok());
      CHECK(exit_code(status.problems()) == 2);
    }
  }
  CHECK(check_writable(missing).problems()[0].fix ==
        "make it: mkdir -p '" + folder.file("no/such") + "'");
  CHECK(folder.entries() == 0);
}

TEST_CASE("check_writable leaves no trace and no changed file") {
  const Folder folder;
  CHECK(check_writable(folder.file("new")).ok());
  CHECK(folder.entries() == 0);
  REQUIRE(write_atomically(folder.file("old"), "text").ok());
  CHECK(check_writable(folder.file("old")).ok());
  CHECK(content(folder.file("old")) == "text");
}

TEST_CASE("a folder or file closed to its user is refused before the work") {
  if (::geteuid() == 0) {
    WARN("root may write anywhere: /proc stands for this case above");
    return;
  }
  const Folder folder;
  REQUIRE(write_atomically(folder.file("read_only"), "x").ok());
  fs::permissions(folder.file("read_only"), fs::perms(0400));
  CHECK(!check_writable(folder.file("read_only")).ok());
  fs::permissions(folder.file("."), fs::perms(0500));
  CHECK(!check_writable(folder.file("new")).ok());
  fs::permissions(folder.file("."), fs::perms(0700));
}

TEST_CASE("reading names what is missing, a folder, and what is too large") {
  const Folder folder;
  REQUIRE(write_atomically(folder.file("ten"), "0123456789").ok());
  CHECK(read_file(folder.file("ten"), 10).value() == "0123456789");
  CHECK(to_text(read_file(folder.file("ten"), 9).problems()[0]) ==
        folder.file("ten") + ": expected at most 9 bytes, found more");
  CHECK(read_file(folder.file("none"), 10).problems()[0].found == "No such file or directory");
  CHECK(read_file(folder.file("."), 10).problems()[0].found == "Is a directory");
}
