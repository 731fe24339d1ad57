#include "exec/checkpoint/verify.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>

#include "exec/checkpoint/names.hpp"

namespace exec {
namespace {

using core::Problem;

// While it is held no run can begin here; none where nobody ever locked the folder.
class SharedLock {
 public:
  explicit SharedLock(const std::string& folder)
      : fd_(::open(lock_path(folder).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW)) {
    taken_ = fd_ < 0 || ::flock(fd_, LOCK_SH | LOCK_NB) == 0;
  }
  SharedLock(const SharedLock&) = delete;
  SharedLock& operator=(const SharedLock&) = delete;
  ~SharedLock() {
    if (fd_ >= 0) ::close(fd_);
  }
  bool taken() const { return taken_; }

 private:
  int fd_;
  bool taken_ = false;
};

HeldStep held_step(const std::string& path, std::int64_t steps) {
  HeldStep held;
  held.folder = step_path(path, steps);
  held.steps_done = steps;
  const auto manifest = read_manifest(manifest_path(held.folder), steps);
  if (!manifest.ok()) {
    held.problems = manifest.problems();
    return held;
  }
  held.ranks = manifest->files.size();
  held.trained_on = manifest->trained_on;
  const Digest what = digest_of(manifest->trained_on);
  for (std::size_t r = 0; r < held.ranks; ++r) {
    const RankFile& listed = manifest->files[r];
    const auto rank = static_cast<std::int64_t>(r);
    held.bytes += core::Bytes(listed.bytes);
    const core::Status whole =
        check_rank_file(rank_path(held.folder, static_cast<int>(r)), {rank, steps, what}, listed);
    if (whole.ok()) continue;
    held.problems.insert(held.problems.end(), whole.problems().begin(), whole.problems().end());
  }
  return held;
}

}  // namespace

core::Result<std::vector<HeldStep>> verify(const std::string& path) {
  std::error_code error;
  const std::filesystem::directory_iterator readable(path, error);
  if (error) return Problem{path, "a folder of checkpoints", error.message(), ""};
  const SharedLock lock(path);
  if (!lock.taken())
    return Problem{path, "a folder that no run uses", "one that is in use",
                   "wait for the run to end"};
  std::vector<HeldStep> steps;
  for (const std::int64_t n : complete_steps(path)) steps.push_back(held_step(path, n));
  return steps;
}

}  // namespace exec
