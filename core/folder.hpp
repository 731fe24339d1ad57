#pragma once
// Folders written whole: all of their files or nothing. As core/file.hpp for problems.

#include <functional>
#include <string>
#include <string_view>

#include "core/result.hpp"

namespace core {

// A folder made under a temporary name beside its target, which takes the target's place when it is
// complete; without commit() it is removed. Replaces a folder that holds nothing but what
// `replaceable` says of names, in one step where the file system can. Not copied.
// Thread-compatible.
class NewFolder {
 public:
  using Names = std::function<bool(std::string_view name)>;
  // Problems: a parent that is not there or takes no new folder, a target that is no folder or
  // holds other files.
  static Result<NewFolder> at(const std::string& path, const Names& replaceable);
  NewFolder(NewFolder&& other) noexcept;
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;
  ~NewFolder();

  Status write(const std::string& name, std::string_view bytes);
  Status commit();

 private:
  NewFolder(std::string target, std::string temporary)
      : target_(std::move(target)), temporary_(std::move(temporary)) {}

  std::string target_, temporary_;     // temporary_ empty: gone
};

}  // namespace core
