#include "core/piece_file.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/catch.hpp"

using namespace core;
namespace fs = std::filesystem;

namespace {

// A path of the test's own, removed at its end.
class Path {
 public:
  Path() {
    std::string name = (fs::temp_directory_path() / "planner-pieces-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    folder_ = name;
  }
  Path(const Path&) = delete;
  Path& operator=(const Path&) = delete;
  ~Path() { fs::remove_all(folder_); }
  std::string text() const { return folder_ + "/file"; }

 private:
  std::string folder_;
};

std::string piece(const PieceFile& file, std::uint64_t at, std::size_t bytes) {
  std::string out(bytes, '?');
  const Status read = file.read(at, out);
  return read.ok() ? out : "! " + to_text(read.problems());
}

}  // namespace

TEST_CASE("pieces of a file lie where they are, beyond what memory holds too") {
  const Path path;
  std::ofstream(path.text()) << "0123456789";
  constexpr std::uint64_t kFar = std::uint64_t{1} << 40;  // with a hole, which takes no disk
  {
    std::fstream sparse(path.text(), std::ios::in | std::ios::out);
    sparse.seekp(static_cast<std::streamoff>(kFar));
    sparse << "far";
  }
  const auto file = PieceFile::open(path.text(), 5);  // what is kept in memory is limited, not this
  REQUIRE(file.ok());
  CHECK(file->size() == kFar + 3);
  CHECK(piece(*file, 3, 4) == "3456");
  CHECK(piece(*file, kFar, 3) == "far");
  CHECK(piece(*file, kFar, 0) == "");
}

TEST_CASE("a file that is cut while it is open is no fault of the reader") {
  const Path path;
  std::ofstream(path.text()) << "0123456789";
  const auto file = PieceFile::open(path.text(), 5);
  REQUIRE(file.ok());
  fs::resize_file(path.text(), 4);
  CHECK(piece(*file, 0, 4) == "0123");
  const Status read = [&] {
    std::string out(8, '?');
    return file->read(0, out);
  }();
  REQUIRE_FALSE(read.ok());
  CHECK(read.problems().front().kind == ProblemKind::failed_running);
  CHECK(to_text(read.problems()).find("the 10 bytes that it had, found 4 of them") !=
        std::string::npos);
}

TEST_CASE("a pipe is kept in memory, up to the limit") {
  const auto of_pipe = [](std::size_t most) {
    const Path path;
    REQUIRE(::mkfifo(path.text().c_str(), 0600) == 0);
    std::thread writer([&] { std::ofstream(path.text()) << "0123456789"; });
    const auto file = PieceFile::open(path.text(), most);
    writer.join();
    return file.ok() ? piece(*file, 2, 5) : "! " + to_text(file.problems());
  };
  CHECK(of_pipe(10) == "23456");
  CHECK(of_pipe(9).find("at most 9 bytes") != std::string::npos);
}

TEST_CASE("what cannot be read in pieces is refused") {
  CHECK_FALSE(PieceFile::open("/dev/zero", 5).ok());
  CHECK_FALSE(PieceFile::open("no-such-file", 5).ok());
  const auto folder = PieceFile::open("/", 5);
  CHECK_FALSE((folder.ok() && piece(*folder, 0, 1).front() != '!'));
}
