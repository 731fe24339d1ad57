#pragma once
// Chakra execution traces [chakra], written: a step of each rank as a graph of nodes that other
// simulators play. A file is a sequence of protobuf messages, each behind its length as a varint:
// GlobalMetadata, then nodes in issue order. Read back by chakra_read.hpp.
//
// A node is an operation of the timetable:
//   computation          COMP_NODE
//   copies to the host   MEM_STORE_NODE, MEM_LOAD_NODE     tensor_size
//   collectives          COMM_COLL_NODE                    comm_type, comm_size, pg_name
//   messages             COMM_SEND_NODE, COMM_RECV_NODE    comm_src, comm_dst, comm_tag, comm_size
// It depends on the node before it in its stream (ctrl_deps) and on those whose events it waits for
// (data_deps). comm_size is what the rank puts in, padding included: of an all-gather its own
// part, of everything else the whole vector. pg_name is a number, listed with its ranks in
// comm_groups.json; "0" is all ranks, as ASTRA-sim has it, and listed only where some ranks are not
// written. A push to parameter servers is a send to each of them, beside one another; the attribute
// incast says how many share the busier link.
//
// Durations in the schema's field are whole microseconds: a stream's sum is rounded, not each node,
// so a stream is off by less than one. The attribute duration_picoseconds is exact. Deterministic:
// the same scene gives the same bytes. Pure; thread-safe.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/result.hpp"
#include "sim/engine/scene.hpp"

namespace engine {

struct ChakraOptions {
  std::vector<int> ranks{};            // empty: all
  // Of all files; more is refused, before any is written.
  double most_nodes = 4e6;
};

// The groups of comm_groups.json: pg_name by its ranks, ascending. Those of ranks that write alone.
using ChakraGroups = std::map<std::vector<int>, int>;
std::string chakra_groups_json(const ChakraGroups& groups);

// Takes a rank's file; what is no success ends the writing.
using ChakraSink = std::function<core::Status(int rank, const std::string& bytes)>;

// Problems: a rank that is not there, more nodes than the limit, those of the sink. Returns the
// groups that comm_groups.json lists. REQUIRES: the scene keeps parts.
core::Result<ChakraGroups> write_chakra(const Scene& scene, const ChakraOptions& options,
                                        const ChakraSink& sink);

}  // namespace engine
