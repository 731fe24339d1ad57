#pragma once
// Execution traces in a folder: PREFIX.RANK.et and comm_groups.json, as ASTRA-sim names them.

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/folder.hpp"
#include "core/result.hpp"
#include "sim/chakra/write.hpp"
#include "sim/chakra/read.hpp"

namespace cli {

// Whether `path` names traces: a folder, a file of one rank or the common prefix of all.
bool names_traces(const std::string& path);

struct TraceFiles {
  std::vector<engine::ChakraTrace> traces;  // by rank
  std::vector<engine::ChakraGroup> groups;
};
// All ranks' files. groups: a file; empty: comm_groups.json beside them where there is one.
// progress: told each file, may be empty. Problems: no files, several sets of them, ranks that are
// missing, and those of reading.
core::Result<TraceFiles> read_trace_files(const std::string& path,
                                          const std::optional<std::string>& groups,
                                          const std::function<void(std::string_view)>& progress);

// A folder to write them to (step.RANK.et); a folder of earlier ones is replaced.
core::Result<core::NewFolder> new_trace_folder(const std::string& path);
std::string trace_file_name(int rank);

}  // namespace cli
