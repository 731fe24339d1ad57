#pragma once
// Files read whole and written whole. A Problem of kind bad_input means the file could not be
// opened (exit code 2); failed_running means writing it failed half-way (exit code 3).
// Thread-safe for different paths.

#include <cstddef>
#include <string>
#include <string_view>

#include "core/result.hpp"

namespace core {

// The whole file, or a pipe until its end; refused beyond max_bytes. A file that the Call of this
// thread brought (call.hpp) comes before one of the system.
Result<std::string> read_file(const std::string& path, std::size_t max_bytes);

// Whether read_file() finds something of this name; whether it is a folder.
bool path_exists(const std::string& path);
bool is_folder(const std::string& path);
// From the root on, without "." and "..".
std::string absolute_path(const std::string& path);

// Call before the work whose result goes to path: its folder is there and takes new files, and it
// is no folder itself. A pipe or device is not opened.
Status check_writable(const std::string& path);

// A regular file or a new path: a temporary beside it, fsync, rename, fsync of the folder, so that
// a reader sees the old text or the new one, never a part; the temporary is removed on any
// failure. The file keeps its permissions, and a link to it stays a link. Anything else (a pipe, a
// device, whatever lies under /dev or /proc) is appended to directly. A pipe whose reader left
// raises SIGPIPE unless the process ignores it.
Status write_atomically(const std::string& path, std::string_view text);

}  // namespace core
