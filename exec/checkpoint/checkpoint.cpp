#include "exec/checkpoint/checkpoint.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <optional>
#include <thread>

#include <fmt/format.h>

#include "core/file.hpp"
#include "exec/checkpoint/names.hpp"

namespace exec {
namespace {

namespace fs = std::filesystem;
using core::Problem;

constexpr std::size_t kKept = 2;

Problem failed(const std::string& path, const std::string& expected, const std::string& why) {
  return {path, expected, why, "", core::ProblemKind::failed_running};
}

// 0 or errno.
int sync_folder(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return errno;
  const int error = ::fsync(fd) != 0 && errno != EINVAL ? errno : 0;
  ::close(fd);
  return error;
}

}  // namespace

core::Result<CheckpointFolder> CheckpointFolder::open(const std::string& path, TrainedOn trained_on,
                                                      int ranks, const SetAside& set_aside) {
  const std::string where = "--checkpoint-dir " + path;
  std::error_code error;
  fs::create_directories(path, error);
  if (error) return Problem{where, "a folder that is there or can be made", error.message(), ""};
  const int lock = ::open(lock_path(path).c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (lock < 0)
    return Problem{where, "a folder that takes new files", std::strerror(errno), ""};
  CheckpointFolder folder(path, std::move(trained_on), ranks, lock);
  if (::flock(lock, LOCK_EX | LOCK_NB) != 0)
    return Problem{where, "a folder that no other run uses", "one that is in use",
                   "wait for the other run, or name another folder"};
  remove_partials(path);
  core::Status found = set_aside ? folder.find_whole(set_aside) : folder.find_last(0, ranks);
  if (!found.ok()) return found.problems();
  return folder;
}

core::Result<CheckpointFolder> CheckpointFolder::join(const std::string& path,
                                                      TrainedOn trained_on, int ranks,
                                                      std::int64_t steps_done, int rank) {
  CheckpointFolder folder(path, std::move(trained_on), ranks, -1);
  core::Status found = folder.find_last(rank, rank + 1);
  if (!found.ok()) return found.problems();
  if (folder.steps_done_ != steps_done)
    return Problem{"--checkpoint-dir " + path,
                   fmt::format("step {}, as rank 0 sees it", steps_done),
                   fmt::format("step {}", folder.steps_done_),
                   "name a folder that every machine of the run sees"};
  return folder;
}

CheckpointFolder::CheckpointFolder(std::string path, TrainedOn trained_on, int ranks, int lock)
    : path_(std::move(path)), trained_on_(std::move(trained_on)), what_(digest_of(trained_on_)),
      files_(static_cast<std::size_t>(ranks)), lock_(lock) {}

CheckpointFolder::CheckpointFolder(CheckpointFolder&& other) noexcept
    : path_(std::move(other.path_)), trained_on_(std::move(other.trained_on_)),
      what_(other.what_),
      files_(std::move(other.files_)), lock_(std::exchange(other.lock_, -1)),
      steps_done_(other.steps_done_), writing_(std::exchange(other.writing_, 0)) {}

CheckpointFolder::~CheckpointFolder() {
  // Another process of the run may be putting its file there still: once more, then.
  for (int tries = 0; tries < 50 && writing_ > 0 && lock_ >= 0; ++tries) {
    std::error_code error;
    fs::remove_all(partial_path(path_, writing_), error);
    if (!error) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  if (lock_ >= 0) ::close(lock_);
}

CheckpointFolder::Checked CheckpointFolder::check_step(std::int64_t steps, int first_rank,
                                                       int last_rank) {
  const std::string folder = step_path(path_, steps);
  const std::string file = manifest_path(folder);
  const auto manifest = read_manifest(file, steps);
  if (!manifest.ok()) return {manifest.problems()};
  core::Problems others = differences(*manifest, file, trained_on_, files_.size());
  if (!others.empty()) return {std::move(others), true};
  files_ = manifest->files;
  for (int r = first_rank; r < last_rank; ++r)
    if (const core::Status whole =
            check_rank_file(rank_path(folder, r), whose(r, steps), file_of(r));
        !whole.ok())
      return {whole.problems()};
  return {};
}

core::Status CheckpointFolder::find_last(int first_rank, int last_rank) {
  const std::vector<std::int64_t> all = complete_steps(path_);
  if (all.empty()) return core::Done{};
  Checked last = check_step(all.back(), first_rank, last_rank);
  if (!last.problems.empty()) return std::move(last.problems);
  steps_done_ = all.back();
  return core::Done{};
}

core::Status CheckpointFolder::find_whole(const SetAside& set_aside) {
  std::vector<std::int64_t> all = complete_steps(path_);
  const auto ranks = static_cast<int>(files_.size());
  std::vector<std::pair<std::int64_t, core::Problems>> damaged;
  for (; !all.empty(); all.pop_back()) {
    Checked step = check_step(all.back(), 0, ranks);
    if (step.problems.empty()) break;
    // What to do about another run's steps is for the user to decide.
    if (step.of_another_run) return std::move(step.problems);
    damaged.emplace_back(all.back(), std::move(step.problems));
  }
  if (all.empty() && !damaged.empty()) return damaged.front().second;
  for (const auto& [steps, damage] : damaged) {
    const std::string name = unused_damaged_path(path_, steps);
    std::error_code error;
    fs::rename(step_path(path_, steps), name, error);
    if (error) return failed(name, "a new name", error.message());
    set_aside(damage, name);
  }
  if (!all.empty()) steps_done_ = all.back();
  return core::Done{};
}

core::Status CheckpointFolder::load(int rank, RankState& state) const {
  return read_rank_file(rank_path(step_path(path_, steps_done_), rank), whose(rank, steps_done_),
                        file_of(rank), state);
}

core::Status CheckpointFolder::begin(std::int64_t steps_done) {
  std::error_code error;
  writing_ = steps_done;
  fs::remove_all(partial_path(path_, writing_), error);
  fs::create_directory(partial_path(path_, writing_), error);
  if (error) return failed(partial_path(path_, writing_), "a new folder", error.message());
  return core::Done{};
}

core::Status CheckpointFolder::write(int rank, const RankState& state) {
  const auto file =
      write_rank_file(rank_path(partial_path(path_, writing_), rank), whose(rank, writing_), state);
  if (!file.ok()) return file.problems();
  written(rank, *file);
  return core::Done{};
}

core::Status CheckpointFolder::commit() {
  const std::string from = partial_path(path_, writing_), to = step_path(path_, writing_);
  const core::Status written = core::write_atomically(
      manifest_path(from), manifest_text({writing_, trained_on_, files_}));
  if (!written.ok()) {
    Problem problem = written.problems().front();
    problem.kind = core::ProblemKind::failed_running;
    return problem;
  }
  if (const int error = sync_folder(from))
    return failed(from, "to be synchronised", std::strerror(error));
  std::error_code error;
  fs::rename(from, to, error);
  if (error) return failed(to, "a new name", error.message());
  steps_done_ = std::exchange(writing_, 0);
  if (const int sync = sync_folder(path_))
    return failed(path_, "to be synchronised", std::strerror(sync));
  std::vector<std::int64_t> all = complete_steps(path_);
  while (all.size() > kKept) {
    // Not complete any more before it is half gone.
    fs::rename(step_path(path_, all.front()), partial_path(path_, all.front()), error);
    if (!error) fs::remove_all(partial_path(path_, all.front()), error);
    all.erase(all.begin());
  }
  return core::Done{};
}

}  // namespace exec
