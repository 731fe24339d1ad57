#pragma once
// Files that are either whole or absent, and a private folder for what worker processes hand over.
// Failures throw std::system_error naming the path. Not for concurrent writers of one path.

#include <string>
#include <string_view>

namespace probe {

// Writes `path` by a temporary beside it, fsync and rename. A path that exists and is no regular
// file (/dev/stdout, a pipe) is written directly.
void write_whole(const std::string& path, std::string_view text);

// True when `path` exists and is no regular file.
bool is_special(const std::string& path);

// Throws what write_whole(path) would throw for a folder that is missing or not writable; leaves
// nothing behind.
void check_writable(const std::string& path);

// The content, or "" when the file cannot be read.
std::string read_or_empty(const std::string& path);

// A folder only this user can read, under TMPDIR or /tmp; removed with its content at the end.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace probe
