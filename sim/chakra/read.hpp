#pragma once
// Chakra execution traces [chakra], read: files of this and of other simulators. What the schema
// allows is taken (fields in any order, packed numbers or not, unknown fields and attributes passed
// over), of the versions that version.hpp names; others are refused by their number. What is
// damaged is refused with the file and the byte: lengths that lead outside, numbers of more than
// 64 bits, fields of another type, node ids twice, data dependencies on nodes that are not there,
// sizes and durations that no step has. Where a control dependency is on a node that is not there,
// those of the file are callers, as in PyTorch's traces, and are passed over. Memory is bounded by
// the bytes of the file and by the limit of nodes. Pure; thread-safe.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"

namespace engine {

inline constexpr std::size_t kMostChakraNodes = 4'000'000;            // of all files
inline constexpr std::size_t kMostChakraBytes = std::size_t{1} << 30;  // likewise
inline constexpr std::int64_t kMostChakraSize = std::int64_t{1} << 50;  // bytes of a transfer

struct ChakraNode {
  std::uint64_t id = 0;
  std::uint64_t offset = 0;            // byte of the file where it begins
  std::int64_t duration = 0;           // picoseconds; 0: none was recorded
  std::int64_t size = 0;               // comm_size, or tensor_size of what is no communication
  double operations = 0;               // num_ops
  std::int64_t beside = 0;             // picoseconds that are not the wire's (chakra.hpp)
  std::uint32_t first_dependency = 0, dependencies = 0;  // of ChakraTrace::dependencies
  std::uint32_t group = 0, stream = 0, algorithm = 0, what = 0;  // ChakraTrace::texts; 0: none
  std::uint32_t tag = 0, incast = 0;   // incast > 0: buffered (chakra.hpp)
  int source = -1, destination = -1;   // -1: not said, which is this rank
  std::uint8_t type = 0, comm_type = 0;
  bool on_host = false;                // is_cpu_op
};

struct ChakraGroup {
  std::string name;
  std::vector<int> ranks;              // ascending; empty: all
};

// The file of one rank.
struct ChakraTrace {
  int rank = 0;
  std::string file;
  std::vector<ChakraNode> nodes;       // in the order of the file
  std::vector<std::uint32_t> dependencies;  // indices of nodes
  std::vector<std::string> texts{""};
  std::vector<ChakraGroup> groups;     // that METADATA nodes list, as PyTorch's traces do
};

core::Result<ChakraTrace> read_chakra(std::string file, std::string_view bytes, int rank,
                                      std::size_t most_nodes = kMostChakraNodes);

// comm_groups.json: {"1": [0, 1], ...}.
core::Result<std::vector<ChakraGroup>> read_chakra_groups(std::string_view text,
                                                          const std::string& file);

// "step.0.et: byte 123 (node 7)"
std::string place_of(const ChakraTrace& trace, const ChakraNode& node);

}  // namespace engine
