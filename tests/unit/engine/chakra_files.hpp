#pragma once
// Execution traces in memory: those of a scene, and small ones by hand.

#include <map>

#include "core/protobuf.hpp"
#include "sim/chakra/write.hpp"
#include "sim/chakra/play.hpp"
#include "sim/chakra/schema.hpp"
#include "tests/catch.hpp"

namespace engine_test {

struct Written {
  std::map<int, std::string> files;
  engine::ChakraGroups groups;
};

inline Written written(const engine::Scene& scene, const engine::ChakraOptions& options = {}) {
  Written w;
  auto groups = engine::write_chakra(scene, options, [&](int rank, const std::string& bytes) {
    w.files[rank] = bytes;
    return core::Status(core::Done{});
  });
  REQUIRE(groups.ok());
  w.groups = std::move(groups).value();
  return w;
}

struct ReadBack {
  std::vector<engine::ChakraTrace> traces;
  std::vector<engine::ChakraGroup> groups;
};

inline ReadBack read_back(const Written& w) {
  ReadBack r;
  for (const auto& [rank, bytes] : w.files) {
    auto trace = engine::read_chakra("step." + std::to_string(rank) + ".et", bytes, rank);
    INFO((trace.ok() ? "" : core::to_text(trace.problems())));
    REQUIRE(trace.ok());
    r.traces.push_back(std::move(trace).value());
  }
  auto groups = engine::read_chakra_groups(engine::chakra_groups_json(w.groups), "groups");
  REQUIRE(groups.ok());
  r.groups = std::move(groups).value();
  return r;
}

// A node by hand, as another writer might make it: dependencies one by one.
struct Hand {
  core::ProtoMessage message;
  explicit Hand(std::uint64_t id, std::uint64_t type, std::vector<std::uint64_t> after = {},
                std::uint64_t micros = 0) {
    message.number(engine::chakra::kId, id);
    message.text(engine::chakra::kName, "hand");
    message.number(engine::chakra::kType, type);
    for (const std::uint64_t on : after) message.number(engine::chakra::kDataDeps, on);
    if (micros > 0) message.number(engine::chakra::kDurationMicros, micros);
  }
  Hand& with(std::string_view name, std::int64_t value) {
    core::ProtoMessage a;
    a.text(engine::chakra::kAttributeName, name);
    a.number(engine::chakra::kInt64, static_cast<std::uint64_t>(value));
    message.message(engine::chakra::kAttribute, a);
    return *this;
  }
  Hand& with(std::string_view name, std::string_view value) {
    core::ProtoMessage a;
    a.text(engine::chakra::kAttributeName, name);
    a.text(engine::chakra::kString, value);
    message.message(engine::chakra::kAttribute, a);
    return *this;
  }
};

inline std::string file_of(const std::vector<Hand>& nodes) {
  std::string bytes;
  core::ProtoMessage metadata;
  metadata.text(engine::chakra::kVersion, "0.0.4");
  metadata.append_delimited(bytes);
  for (const Hand& node : nodes) node.message.append_delimited(bytes);
  return bytes;
}

inline std::vector<engine::ChakraTrace> traces_of(const std::vector<std::vector<Hand>>& ranks) {
  std::vector<engine::ChakraTrace> traces;
  for (const auto& nodes : ranks) {
    const int rank = static_cast<int>(traces.size());
    traces.push_back(
        engine::read_chakra("t." + std::to_string(rank) + ".et", file_of(nodes), rank).value());
  }
  return traces;
}

}  // namespace engine_test
