// The memory that a process may have, by files of /proc and /sys as kernels write them.
#include "core/machine_memory.hpp"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/catch.hpp"

using core::Bytes;

namespace {

// A folder that stands for "/".
class Root {
 public:
  Root() : path_(std::filesystem::temp_directory_path() /
                 ("planner-root-" + std::to_string(::getpid()))) {
    write("/proc/meminfo",
          "MemFree:   17 kB\nMemTotal:       24682416 kB\nMemAvailable:   2000000 kB\nHuge: 3\n");
  }
  Root(const Root&) = delete;
  Root& operator=(const Root&) = delete;
  ~Root() { std::filesystem::remove_all(path_); }
  void write(const std::string& file, const std::string& text) const {
    const std::filesystem::path path = path_.string() + file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  core::MachineMemory memory() const {
    const auto memory = core::machine_memory(path_.string());
    REQUIRE(memory);
    return *memory;
  }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

constexpr std::int64_t kMachine = 24682416LL * 1024;

}  // namespace

TEST_CASE("without a bound the memory of the machine is this process's") {
  const Root root;
  CHECK(root.memory().total == Bytes(kMachine));
  CHECK(root.memory().available == Bytes(2000000LL * 1024));
  CHECK(root.memory().bound.empty());
  root.write("/proc/self/cgroup", "0::/\n");
  root.write("/sys/fs/cgroup/memory.max", "max\n");
  CHECK(root.memory().total == Bytes(kMachine));
  CHECK(root.memory().bound.empty());
}

TEST_CASE("a control group of version 2, or one above it, bounds memory") {
  const Root root;
  root.write("/proc/self/cgroup", "0::/kubepods/pod7\n");
  root.write("/sys/fs/cgroup/kubepods/pod7/memory.max", "max\n");
  root.write("/sys/fs/cgroup/kubepods/memory.max", "1000000\n");
  root.write("/sys/fs/cgroup/kubepods/memory.current", "700000\n");
  root.write("/sys/fs/cgroup/kubepods/memory.stat",
             "anon 400000\nactive_file 100000\ninactive_file 150000\nslab 3\n");
  CHECK(root.memory().total == Bytes(1000000));
  CHECK(root.memory().available == Bytes(1000000 - 700000 + 250000));
  CHECK(root.memory().bound == root.path() + "/sys/fs/cgroup/kubepods/memory.max");
  root.write("/sys/fs/cgroup/kubepods/memory.current", "2000000\n");  // more than it may have
  CHECK(root.memory().available == Bytes(0));
}

TEST_CASE("a control group of version 1 bounds memory, and a huge limit is none") {
  const Root root;
  root.write("/proc/self/cgroup", "5:devices:/\n4:cpu,memory:/job\n0::/\n");
  root.write("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "4096000\n");
  root.write("/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "1000\n");
  root.write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  CHECK(root.memory().total == Bytes(4096000));
  CHECK(root.memory().available == Bytes(4095000));
  root.write("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "9223372036854771712\n");
  CHECK(root.memory().total == Bytes(kMachine));
  CHECK(root.memory().available == Bytes(2000000LL * 1024));
}

TEST_CASE("where nothing says how much memory there is, nothing is made up") {
  const Root root;
  root.write("/proc/meminfo", "MemFree:   17 kB\n");
  CHECK_FALSE(core::machine_memory(root.path()));
  CHECK_FALSE(core::machine_memory("/nowhere"));
  CHECK(core::machine_memory());       // of this machine
}
