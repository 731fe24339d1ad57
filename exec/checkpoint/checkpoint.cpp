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
#include "core/json.hpp"
#include "core/json_reader.hpp"

namespace exec {
namespace {

namespace fs = std::filesystem;
using core::Problem;

constexpr std::string_view kComplete = "step-", kPartial = ".step-";
constexpr std::size_t kMostManifest = std::size_t{64} << 20;
constexpr std::size_t kKept = 2;

Problem failed(const std::string& path, const std::string& expected, const std::string& why) {
  return {path, expected, why, "", core::ProblemKind::failed_running};
}

// N of "step-N".
std::optional<std::int64_t> steps_of(const std::string& name) {
  if (!name.starts_with(kComplete)) return std::nullopt;
  std::int64_t steps = 0;
  const char* const end = name.data() + name.size();
  const auto read = std::from_chars(name.data() + kComplete.size(), end, steps);
  if (read.ec != std::errc() || read.ptr != end || steps < 1) return std::nullopt;
  return steps;
}

// Of the complete steps in a folder, ascending.
std::vector<std::int64_t> complete_steps(const std::string& path) {
  std::vector<std::int64_t> all;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(path, ignored))
    if (const auto steps = steps_of(entry.path().filename().string())) all.push_back(*steps);
  std::ranges::sort(all);
  return all;
}

void remove_partials(const std::string& path) {
  std::vector<fs::path> stale;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(path, ignored))
    if (entry.path().filename().string().starts_with(kPartial)) stale.push_back(entry.path());
  for (const fs::path& folder : stale) fs::remove_all(folder, ignored);
}

// 0 or errno.
int sync_folder(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return errno;
  const int error = ::fsync(fd) != 0 && errno != EINVAL ? errno : 0;
  ::close(fd);
  return error;
}

// Of a text that may be a whole file: enough to see which one it is.
std::string in_short(const std::string& text) {
  constexpr std::size_t kMost = 120;
  return text.size() <= kMost ? text : text.substr(0, kMost) + "...";
}

std::string rank_path(const std::string& folder, int rank) {
  return fmt::format("{}/rank-{:04}", folder, rank);
}

}  // namespace

core::Result<CheckpointFolder> CheckpointFolder::open(const std::string& path,
                                                      TrainedOn trained_on, int ranks) {
  const std::string where = "--checkpoint-dir " + path;
  std::error_code error;
  fs::create_directories(path, error);
  if (error) return Problem{where, "a folder that is there or can be made", error.message(), ""};
  const int lock = ::open((path + "/.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (lock < 0)
    return Problem{where, "a folder that takes new files", std::strerror(errno), ""};
  CheckpointFolder folder(path, std::move(trained_on), ranks, lock);
  if (::flock(lock, LOCK_EX | LOCK_NB) != 0)
    return Problem{where, "a folder that no other run uses", "one that is in use",
                   "wait for the other run, or name another folder"};
  remove_partials(path);
  if (core::Status found = folder.find_last(0, ranks); !found.ok()) return found.problems();
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

CheckpointFolder::CheckpointFolder(CheckpointFolder&& other) noexcept
    : path_(std::move(other.path_)), trained_on_(std::move(other.trained_on_)),
      bytes_(std::move(other.bytes_)), lock_(std::exchange(other.lock_, -1)),
      steps_done_(other.steps_done_), writing_(std::exchange(other.writing_, 0)) {}

CheckpointFolder::~CheckpointFolder() {
  // Another process of the run may be putting its file there still: once more, then.
  for (int tries = 0; tries < 50 && writing_ > 0 && lock_ >= 0; ++tries) {
    std::error_code error;
    fs::remove_all(partial(writing_), error);
    if (!error) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  if (lock_ >= 0) ::close(lock_);
}

std::string CheckpointFolder::complete(std::int64_t steps) const {
  return fmt::format("{}/{}{:08}", path_, kComplete, steps);
}
std::string CheckpointFolder::partial(std::int64_t steps) const {
  return fmt::format("{}/{}{:08}.partial", path_, kPartial, steps);
}

std::string CheckpointFolder::manifest() const {
  core::Json trained = core::Json::object();
  for (const auto& [what, text] : trained_on_) trained.set(what, text);
  core::Json root = core::Json::object({{"schema", "checkpoint/1"}, {"steps_done", writing_}});
  root.set("rank_bytes", core::Json::array_of(bytes_));
  root.set("trained_on", std::move(trained));
  return core::dump(root) + '\n';
}

core::Status CheckpointFolder::find_last(int first_rank, int last_rank) {
  const std::vector<std::int64_t> all = complete_steps(path_);
  if (all.empty()) return core::Done{};
  const std::string folder = complete(all.back());
  if (core::Status read = read_manifest(folder + "/manifest.json"); !read.ok()) return read;
  for (int r = first_rank; r < last_rank; ++r)
    if (core::Status file = check_rank_file(rank_path(folder, r),
                                            core::Bytes(bytes_[static_cast<std::size_t>(r)]));
        !file.ok())
      return file;
  steps_done_ = all.back();
  return core::Done{};
}

core::Status CheckpointFolder::read_manifest(const std::string& file) {
  const auto text = core::read_file(file, kMostManifest);
  if (!text.ok()) return text.problems();
  const auto json = core::parse_json(*text, file);
  if (!json.ok()) return json.problems();
  core::Problems problems;
  core::JsonReader reader(*json, file, "", problems);
  std::vector<std::int64_t> bytes;
  reader.required("rank_bytes", bytes);
  core::JsonReader trained = reader.object("trained_on");
  for (const auto& [what, expected] : trained_on_) {
    std::string found;
    if (trained.required(what, found) && found != expected)
      problems.push_back({file + ": " + what, in_short(expected), in_short(found),
                          "go on with what the run began with, or name another --checkpoint-dir"});
  }
  if (problems.empty() && bytes.size() != bytes_.size())
    reader.problem("rank_bytes", fmt::format("{} ranks", bytes_.size()),
                   fmt::format("{}", bytes.size()));
  if (!problems.empty()) return problems;
  bytes_ = bytes;
  return core::Done{};
}

core::Status CheckpointFolder::load(int rank, RankState& state) const {
  return read_rank_file(rank_path(complete(steps_done_), rank), state);
}

core::Status CheckpointFolder::begin(std::int64_t steps_done) {
  std::error_code error;
  writing_ = steps_done;
  fs::remove_all(partial(writing_), error);
  fs::create_directory(partial(writing_), error);
  if (error) return failed(partial(writing_), "a new folder", error.message());
  return core::Done{};
}

core::Status CheckpointFolder::write(int rank, const RankState& state) {
  bytes_[static_cast<std::size_t>(rank)] = rank_file_bytes(state).value();
  return write_rank_file(rank_path(partial(writing_), rank), state);
}

core::Status CheckpointFolder::commit() {
  const std::string from = partial(writing_), to = complete(writing_);
  const core::Status written = core::write_atomically(from + "/manifest.json", manifest());
  if (!written.ok()) return failed(from, "a manifest", core::to_text(written.problems()));
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
    fs::rename(complete(all.front()), partial(all.front()), error);
    if (!error) fs::remove_all(partial(all.front()), error);
    all.erase(all.begin());
  }
  return core::Done{};
}

}  // namespace exec
