#pragma once
// Internal to imports/: the options of Megatron-LM that scripts or lists of arguments give.

#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/result.hpp"
#include "reports/imports/imports.hpp"
#include "reports/imports/settings.hpp"

namespace reports::imports {

// Whether a text has options of Megatron-LM at all.
bool has_megatron_options(std::string_view text);

// The options of the command that starts Megatron-LM, and of torchrun or srun before it. notes:
// what was taken for granted. Problems: no such command, a script that is not
// closed.
core::Status read_script(std::span<const File> files,
                         const std::map<std::string, std::string>& variables, Settings& settings,
                         std::vector<std::string>& notes);

}  // namespace reports::imports
