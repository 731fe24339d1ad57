#include "cli/log_files.hpp"

#include "core/file.hpp"

namespace cli {

core::Result<reports::logs::LogComparison> compare_log_file(const planner::Plan& plan,
                                                            const std::string& path) {
  constexpr std::size_t kMostLogBytes = std::size_t{256} << 20;
  const core::Result<std::string> text = core::read_file(path, kMostLogBytes);
  if (!text.ok()) return text.problems();
  auto log = reports::logs::read_log(*text, path);
  if (!log.ok()) return log.problems();
  return reports::logs::compare_log(plan, std::move(log).value(), path);
}

}  // namespace cli
