// core/ where there is no system (WebAssembly in a browser): the files are those that the call
// brought, nothing can be written, and there is one thread.

#include <cstring>

#include <fmt/format.h>

#include "core/call.hpp"
#include "core/file.hpp"
#include "core/folder.hpp"
#include "core/machine_memory.hpp"
#include "core/parallel.hpp"
#include "core/piece_file.hpp"

namespace core {
namespace {

Problem nothing_to_write(const std::string& path) {
  return {path, "a place for files", "a page in a browser, which has none", ""};
}

}  // namespace

std::optional<MachineMemory> machine_memory(const std::string&) { return std::nullopt; }

Result<std::string> read_file(const std::string& path, std::size_t max_bytes) {
  const std::string* const brought = file_of_call(path);
  if (brought == nullptr)
    return Problem{path, "a file that can be read", "No such file or directory", ""};
  if (brought->size() > max_bytes)
    return Problem{path, fmt::format("at most {} bytes", max_bytes), "more", ""};
  return *brought;
}

bool path_exists(const std::string& path) { return file_of_call(path) != nullptr; }
bool is_folder(const std::string&) { return false; }
std::string absolute_path(const std::string& path) { return path; }

Status check_writable(const std::string& path) { return nothing_to_write(path); }
Status write_atomically(const std::string& path, std::string_view) {
  return nothing_to_write(path);
}

struct PieceFile::Source {
  std::string text;
};

PieceFile::PieceFile(std::unique_ptr<Source> source) : source_(std::move(source)) {}
PieceFile::PieceFile(PieceFile&&) noexcept = default;
PieceFile& PieceFile::operator=(PieceFile&&) noexcept = default;
PieceFile::~PieceFile() = default;

Result<PieceFile> PieceFile::open(const std::string& path, std::size_t max_in_memory) {
  Result<std::string> text = read_file(path, max_in_memory);
  if (!text) return text.problems();
  return PieceFile(std::make_unique<Source>(Source{std::move(*text)}));
}

std::uint64_t PieceFile::size() const { return source_->text.size(); }

Status PieceFile::read(std::uint64_t at, std::span<char> out) const {
  std::memcpy(out.data(), source_->text.data() + at, out.size());
  return Done{};
}

Result<NewFolder> NewFolder::at(const std::string& path, const Names&) {
  return nothing_to_write(path);
}
NewFolder::NewFolder(NewFolder&& other) noexcept = default;
NewFolder::~NewFolder() = default;
Status NewFolder::write(const std::string& name, std::string_view) {
  return nothing_to_write(name);
}
Status NewFolder::commit() { return nothing_to_write(target_); }

int usable_threads() { return 1; }

void for_each_index(std::size_t count, int, const std::function<void(std::size_t)>& work) {
  for (std::size_t i = 0; i < count; ++i) {
    stop_point();
    work(i);
  }
}

}  // namespace core
