#pragma once
// Data files compiled into the binary by cmake/EmbedData.cmake. Immutable, thread-safe.

#include <string_view>

namespace core {

struct EmbeddedFile {
  std::string_view name;  // path within its folder, "zoo/gpt2-124m.json"
  std::string_view text;
};

}  // namespace core
