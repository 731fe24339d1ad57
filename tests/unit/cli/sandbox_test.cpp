// What a confined process can still do, tried in a child: the sandbox cannot be left.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "cli/sandbox.hpp"
#include "core/file.hpp"
#include "tests/catch.hpp"

namespace {

namespace fs = std::filesystem;

// 0 where `act`, confined with one file of an answer, returns true.
int confined(const fs::path& answer, const std::function<bool()>& act) {
  const pid_t child = ::fork();
  if (child == 0) {
    const core::Status inside = cli::enter_sandbox("on", {std::string(answer)});
    ::_exit(!inside.ok() ? 2 : act() ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool is_refused(long result) {
  return result < 0 && (errno == EPERM || errno == EACCES || errno == EXDEV);
}

}  // namespace

TEST_CASE("a confined process reads, writes its answer, and can do nothing else") {
  if (cli::sandbox_of_kernel().empty()) {
    WARN("this kernel has no Landlock or no seccomp: not tried");
    return;
  }
  const fs::path folder =
      fs::temp_directory_path() / ("sandbox_test." + std::to_string(::getpid()));
  const fs::path own = folder / "own", other = folder / "other";
  fs::create_directories(own);
  fs::create_directories(other);
  std::ofstream(other / "there") << "text";
  const fs::path answer = own / "answer.json";

  CHECK(confined(answer, [&] { return core::read_file(other / "there", 100).ok(); }) == 0);
  CHECK(confined(answer, [&] { return core::write_atomically(answer, "whole").ok(); }) == 0);
  CHECK(core::read_file(answer, 100).value() == "whole");
  fs::create_symlink(other / "there", own / "link");  // the answer may be reached by a link
  CHECK(confined(own / "link",
                 [&] { return core::write_atomically(own / "link", "new").ok(); }) == 0);
  CHECK(core::read_file(other / "there", 100).value() == "new");
  fs::remove(own / "link");
  int ends[2] = {};
  REQUIRE(::pipe(ends) == 0);
  const std::string pipe = "/proc/self/fd/" + std::to_string(ends[1]);
  CHECK(confined(pipe, [&] { return core::write_atomically(pipe, "text").ok(); }) == 0);
  ::close(ends[0]);
  ::close(ends[1]);
  CHECK(confined("/dev/null",
                 [] { return core::write_atomically("/dev/null", "text").ok(); }) == 0);
  CHECK(confined(answer, [] {  // threads that start later are confined, too
          bool refused = false;
          std::thread([&] { refused = is_refused(::socket(AF_INET, SOCK_STREAM, 0)); }).join();
          return refused;
        }) == 0);

  const auto refused = [&](const std::function<long()>& call) {
    return confined(answer, [&] { return is_refused(call()); });
  };
  CHECK(refused([&] { return ::open((other / "new").c_str(), O_WRONLY | O_CREAT, 0600); }) == 0);
  CHECK(refused([&] { return ::open((other / "there").c_str(), O_WRONLY | O_TRUNC); }) == 0);
  CHECK(refused([&] { return ::unlink((other / "there").c_str()); }) == 0);
  CHECK(refused([&] { return ::rename(answer.c_str(), (other / "new").c_str()); }) == 0);
  CHECK(refused([&] { return ::mkdir((own / "folder").c_str(), 0700); }) == 0);
  CHECK(refused([&] { return ::symlink("/etc/passwd", (own / "link").c_str()); }) == 0);
  CHECK(refused([] { return ::execl("/bin/true", "true", nullptr); }) == 0);
  CHECK(refused([] { return ::socket(AF_UNIX, SOCK_STREAM, 0); }) == 0);
  CHECK(refused([] { return ::kill(::getppid(), 0); }) == 0);
  CHECK(fs::exists(other / "there"));
  CHECK(!fs::exists(other / "new"));
  fs::remove_all(folder);

  CHECK(cli::enter_sandbox("yes", {}).problems().front().expected == "one of on, off");
  CHECK(cli::enter_sandbox("off", {}).ok());
}
