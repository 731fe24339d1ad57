#pragma once
// CheckpointFolder: the states of all ranks after a step, in a folder that is whole or not there
// (README). One run uses a folder at a time; a second one is refused. begin(), then write() of
// every rank, then commit(); write() and load() are thread-safe for different ranks, the others
// belong to one thread. A folder that is destroyed between begin() and commit() removes what it
// began.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/result.hpp"
#include "exec/checkpoint/manifest.hpp"
#include "exec/checkpoint/rank_file.hpp"

namespace exec {

// Told of a damaged step: what is wrong with it, and the folder's new name.
using SetAside = std::function<void(const core::Problems& damage, const std::string& name)>;

class CheckpointFolder {
 public:
  // Makes the folder where there is none, takes its lock, removes what was never committed, checks
  // every file of the last complete step. Errors: a folder that cannot be made or is in use, a
  // manifest that cannot be read, is of another version or of something else, damaged files.
  // With set_aside, the last step that is whole counts as the last: damaged ones after it get
  // another name ("damaged-step-00000012"), none is removed. Where no step is whole, the damage of
  // the last one is the error, and nothing is renamed.
  static core::Result<CheckpointFolder> open(const std::string& path, TrainedOn trained_on,
                                             int ranks, const SetAside& set_aside = {});
  // The same folder as a process sees it whose run another one has opened: no lock, and nothing is
  // removed or committed by it; the file of this rank alone is checked. steps_done: what the opener
  // found.
  static core::Result<CheckpointFolder> join(const std::string& path, TrainedOn trained_on,
                                             int ranks, std::int64_t steps_done, int rank);
  CheckpointFolder(CheckpointFolder&& other) noexcept;
  CheckpointFolder& operator=(CheckpointFolder&&) = delete;
  ~CheckpointFolder();

  // Steps that the last complete checkpoint has behind it; 0: there is none.
  std::int64_t steps_done() const { return steps_done_; }
  core::Status load(int rank, RankState& state) const;

  core::Status begin(std::int64_t steps_done);
  // In a process that joined: the step that the opener began.
  void begun(std::int64_t steps_done) { writing_ = steps_done; }
  core::Status write(int rank, const RankState& state);
  // Before commit(), of a rank whose file another process wrote.
  void written(int rank, const RankFile& file) { files_[static_cast<std::size_t>(rank)] = file; }
  // What write() wrote for this rank.
  const RankFile& file_of(int rank) const { return files_[static_cast<std::size_t>(rank)]; }
  // Also removes all but the two latest.
  core::Status commit();

 private:
  CheckpointFolder(std::string path, TrainedOn trained_on, int ranks, int lock);
  core::Status find_last(int first_rank, int last_rank);
  // The last step that is whole, and those after it renamed.
  core::Status find_whole(const SetAside& set_aside);
  // Of a complete step and the files of these ranks; its files are then files_.
  struct Checked {
    core::Problems problems;           // empty: it is whole, and this run's
    bool of_another_run = false;
  };
  Checked check_step(std::int64_t steps, int first_rank, int last_rank);
  RankOf whose(int rank, std::int64_t steps) const { return {rank, steps, what_}; }

  std::string path_;
  TrainedOn trained_on_;
  Digest what_;                        // of trained_on_
  std::vector<RankFile> files_;        // by rank, of the step being written or found
  int lock_ = -1;                      // file descriptor
  std::int64_t steps_done_ = 0;
  std::int64_t writing_ = 0;           // 0: nothing begun
};

}  // namespace exec
