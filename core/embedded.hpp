#pragma once
// Data files compiled into the binary by cmake/EmbedData.cmake. Immutable, thread-safe.

#include <span>
#include <string>
#include <string_view>

#include "core/result.hpp"

namespace core {

struct EmbeddedFile {
  std::string_view name;  // path within its folder, "zoo/gpt2-124m.json"
  std::string_view text;
};

// The file called name: from override_folder when that is not empty and holds it, else from the
// binary. No such file: the nearest name is suggested.
Result<std::string> embedded_or_override(std::span<const EmbeddedFile> files,
                                         std::string_view name,
                                         const std::string& override_folder = "");

}  // namespace core
