// Opening NCCL: what is found, what is refused, and in which words.
#include "exec/cuda/nccl/library.hpp"

#include <cstdlib>
#include <filesystem>

#include "tests/catch.hpp"

namespace cuda = exec::cuda;

namespace {

// PLANNER_FAKE_NCCL while it lives.
class Words {
 public:
  explicit Words(const char* words) { ::setenv("PLANNER_FAKE_NCCL", words, 1); }
  ~Words() { ::unsetenv("PLANNER_FAKE_NCCL"); }
  Words(const Words&) = delete;
  Words& operator=(const Words&) = delete;
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a library with NCCL's functions is opened, and says its version and its file") {
  const cuda::OpenedCollectives opened = cuda::open_collectives(FAKE_NCCL_PATH);
  REQUIRE(opened.library);
  CHECK(opened.library->version == 22809);
  CHECK(cuda::nccl_version_text(opened.library->version) == "2.28.9");
  CHECK(std::filesystem::equivalent(opened.library->path, FAKE_NCCL_PATH));
  CHECK(opened.library->group_end != nullptr);
  CHECK(opened.library->registers());
}

TEST_CASE("a version that lacks what is called is refused with the least that will do") {
  const Words old("version=21800");
  const cuda::OpenedCollectives opened = cuda::open_collectives(FAKE_NCCL_PATH);
  CHECK_FALSE(opened.library);
  CHECK(opened.expected == "NVIDIA's communication library, NCCL 2.18.1 or newer");
  CHECK(has(opened.found, "2.18.0 in "));
  CHECK(has(opened.fix, "--nccl PATH"));
}

TEST_CASE("versions before 2.9 are read as NCCL wrote them then") {
  CHECK(cuda::nccl_version_text(2708) == "2.7.8");
}

TEST_CASE("a file that is missing, or no such library, is refused with what was found") {
  const cuda::OpenedCollectives none = cuda::open_collectives("/no/such/libnccl.so.2");
  CHECK_FALSE(none.library);
  CHECK(has(none.found, "/no/such/libnccl.so.2"));
  const cuda::OpenedCollectives other = cuda::open_collectives("libc.so.6");
  CHECK_FALSE(other.library);
  CHECK(has(other.found, "no function ncclGetVersion"));
}
