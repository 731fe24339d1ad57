#include "core/embedded.hpp"

#include "core/file.hpp"
#include "core/json.hpp"

namespace core {

Result<std::string> embedded_or_override(std::span<const EmbeddedFile> files,
                                         std::string_view name,
                                         const std::string& override_folder) {
  if (!override_folder.empty()) {
    const std::string path = override_folder + "/" + std::string(name);
    if (path_exists(path)) return read_file(path, kMaxJsonBytes);
  }
  std::vector<std::string_view> names;
  for (const EmbeddedFile& file : files) {
    if (file.name == name) return std::string(file.text);
    names.push_back(file.name);
  }
  const std::string_view near = nearest(name, names);
  return Problem{std::string(name), "the name of a data file", "no such file",
                 near.empty() ? "" : "did you mean " + std::string(near) + "?"};
}

}  // namespace core
