#include "exec/cuda/affinity.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/catch.hpp"

using exec::cuda::cpus_from;
using exec::cuda::cpus_near;
using exec::cuda::stay_near;

namespace {

// A folder like sysfs's of PCI devices, with one GPU.
class FakeSysfs {
 public:
  FakeSysfs(const std::string& node, const std::string& cpus) {
    std::filesystem::create_directories(device());
    std::ofstream(device() / "numa_node") << node << "\n";
    std::ofstream(device() / "local_cpulist") << cpus << "\n";
  }
  ~FakeSysfs() { std::filesystem::remove_all(root_); }
  FakeSysfs(const FakeSysfs&) = delete;
  FakeSysfs& operator=(const FakeSysfs&) = delete;
  std::string root() const { return root_.string(); }

 private:
  std::filesystem::path device() const { return root_ / "0000:1b:00.0"; }
  const std::filesystem::path root_ =
      std::filesystem::temp_directory_path() / ("sysfs-" + std::to_string(::getpid()));
};

std::vector<int> allowed() {
  cpu_set_t set;
  REQUIRE(::sched_getaffinity(0, sizeof set, &set) == 0);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  return cpus;
}

}  // namespace

TEST_CASE("a list of CPUs is read as the kernel writes it") {
  CHECK(*cpus_from("0-3,8,10-11") == std::vector<int>{0, 1, 2, 3, 8, 10, 11});
  CHECK(*cpus_from("5") == std::vector<int>{5});
  for (const char* wrong : {"", "a", "3-1", "1-", "-1", "0-100000", "1,,2"})
    CHECK_FALSE(cpus_from(wrong));
}

TEST_CASE("the CPUs near a GPU are those of its slot, whose letters may be capitals") {
  const FakeSysfs sysfs("1", "2-3,6");
  const auto near = cpus_near("0000:1B:00.0", sysfs.root());
  CHECK(near.node == 1);
  CHECK(near.cpus == std::vector<int>{2, 3, 6});
  CHECK(exec::cuda::numa_node("00000000:1B:00.0", sysfs.root()) == 1);  // as NVML writes it
  CHECK(cpus_near("00000000:1B:00.0", sysfs.root()).cpus == near.cpus);
}

TEST_CASE("where the machine does not say which CPUs are near, a rank stays where it is") {
  const std::vector<int> before = allowed();
  {
    const FakeSysfs sysfs("-1", "0-1");
    CHECK(stay_near(cpus_near("0000:1b:00.0", sysfs.root())).find("names no NUMA node") !=
          std::string::npos);
  }
  {
    const FakeSysfs sysfs("0", "none");
    CHECK(stay_near(cpus_near("0000:1b:00.0", sysfs.root())).find("local_cpulist is \"none\"") !=
          std::string::npos);
  }
  CHECK(stay_near(cpus_near("none")).starts_with("as it was: "));
  CHECK(allowed() == before);
}

TEST_CASE("a rank stays on the near CPUs, with the threads that it starts, and elsewhere on none") {
  const std::vector<int> before = allowed();
  const int last = before.back();
  std::thread([&] {
    const std::string total = std::to_string(before.size());
    const FakeSysfs sysfs("1", std::to_string(last));
    CHECK(stay_near(cpus_near("0000:1b:00.0", sysfs.root())) ==
          "NUMA node 1: 1 of " + total + " CPUs");
    std::thread([&] { CHECK(allowed() == std::vector<int>{last}); }).join();
  }).join();
  // A CPU that this process may not use: what was decided for it holds.
  int other = 0;
  while (std::find(before.begin(), before.end(), other) != before.end()) ++other;
  const FakeSysfs sysfs("1", std::to_string(other));
  CHECK(stay_near(cpus_near("0000:1b:00.0", sysfs.root())).find("is of NUMA node 1") !=
        std::string::npos);
  CHECK(allowed() == before);
}
