#include "reports/imports/imports.hpp"

#include <algorithm>

#include "reports/imports/facts.hpp"
#include "reports/imports/megatron_script.hpp"

namespace reports::imports {
namespace {

core::Problem no_format(const std::string& name) {
  return {name,
          "a script of Megatron-LM",
          "none of these", ""};
}

}  // namespace

core::Result<Setup> read_setup(std::span<const File> files, const Given& given) {
  core::Problems problems;
  Settings settings(problems);
  if (std::ranges::none_of(files, [](const File& f) { return has_megatron_options(f.text); }))
    return no_format(files.front().name);
  Facts facts(settings, problems);
  facts.model = given.model;
  const core::Status read = read_script(files, given.variables, settings, facts.notes);
  if (!read.ok()) return read.problems();
  read_megatron(facts);
  Setup setup = finish(facts, given);
  if (!problems.empty()) return problems;
  settings.sort_rest("megatron");
  setup.formats = {"megatron"};
  setup.read = settings.read();
  setup.not_read = settings.unread();
  setup.without_influence = settings.harmless();
  return setup;
}

}  // namespace reports::imports
