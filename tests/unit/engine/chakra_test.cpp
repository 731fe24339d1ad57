// What the files of a small Program say.
#include "sim/chakra/write.hpp"

#include <map>
#include <set>

#include "tests/unit/cost/machine_for_tests.hpp"
#include "tests/unit/engine/chakra_files.hpp"
#include "tests/unit/engine/timed_stages.hpp"

using engine_test::two_stages;
using engine_test::written;

namespace {

// Fields of a message as a reader of another making sees them: number to values, or to bytes.
struct Fields {
  std::map<int, std::vector<std::uint64_t>> numbers;
  std::map<int, std::vector<std::string>> texts;
};

std::uint64_t varint(const std::string& bytes, std::size_t& at) {
  std::uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.at(at++));
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
}

Fields fields_of(const std::string& bytes) {
  Fields f;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::uint64_t key = varint(bytes, at);
    const int field = static_cast<int>(key >> 3);
    if ((key & 7) == 0) {
      f.numbers[field].push_back(varint(bytes, at));
    } else {
      REQUIRE((key & 7) == 2);
      const std::uint64_t size = varint(bytes, at);
      REQUIRE(size <= bytes.size() - at);
      f.texts[field].push_back(bytes.substr(at, size));
      at += size;
    }
  }
  return f;
}

struct Node {
  Fields fields;
  std::map<std::string, std::uint64_t> numbers;  // attributes
  std::map<std::string, std::string> texts;
  std::uint64_t id() const { return fields.numbers.contains(1) ? fields.numbers.at(1)[0] : 0; }
  // Of ctrl_deps (4) or data_deps (5): packed varints.
  std::vector<std::uint64_t> dependencies(int field) const {
    std::vector<std::uint64_t> ids;
    if (!fields.texts.contains(field)) return ids;
    const std::string& packed = fields.texts.at(field).front();
    for (std::size_t at = 0; at < packed.size();) ids.push_back(varint(packed, at));
    return ids;
  }
  std::uint64_t type() const { return fields.numbers.at(3).front(); }
};

std::vector<Node> nodes_of(const std::string& file) {
  std::vector<Node> nodes;
  bool metadata = true;
  for (std::size_t at = 0; at < file.size();) {
    const std::uint64_t size = varint(file, at);
    REQUIRE(size <= file.size() - at);
    if (!metadata) {
      Node n{fields_of(file.substr(at, size)), {}, {}};
      for (const std::string& text : n.fields.texts[10]) {
        const Fields a = fields_of(text);
        const std::string& name = a.texts.at(1).front();
        if (a.texts.contains(29)) n.texts[name] = a.texts.at(29).front();
        for (const auto& [field, values] : a.numbers) n.numbers[name] = values.front();
      }
      nodes.push_back(std::move(n));
    }
    metadata = false;
    at += size;
  }
  return nodes;
}

engine::Scene scene_of(const program::Program& p) {
  engine::SceneOptions options;
  options.parts = true;
  return engine::Scene(p, round_machine(), options);
}

}  // namespace

TEST_CASE("a file begins with its metadata and says the same twice") {
  const program::Program p = two_stages(2);
  const engine::Scene scene = scene_of(p);
  const auto files = written(scene).files;
  REQUIRE(files.size() == static_cast<std::size_t>(p.mesh.ranks()));
  for (const auto& [rank, bytes] : files)
    CHECK(bytes.starts_with(std::string("\x07\x0a\x05") + "0.0.4"));
  CHECK(files == written(scene).files);
}

TEST_CASE("nodes depend on earlier ones, and durations sum to the timetable's") {
  const program::Program p = two_stages(4);
  const engine::Scene scene = scene_of(p);
  for (const auto& [rank, bytes] : written(scene).files) {
    std::uint64_t expected_id = 0, total = 0, waits = 0;
    std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> by_stream;  // ps, us
    for (const Node& n : nodes_of(bytes)) {
      CHECK(n.id() == expected_id++);
      for (const int field : {4, 5})
        for (const std::uint64_t on : n.dependencies(field)) CHECK(on < n.id());
      waits += n.dependencies(5).size();
      const std::uint64_t exact = n.numbers.at("duration_picoseconds");
      total += exact;
      auto& [picoseconds, micros] = by_stream[n.texts.at("stream")];
      picoseconds += exact;
      if (n.fields.numbers.contains(7)) micros += n.fields.numbers.at(7).front();
    }
    CHECK(waits > 0);
    for (const auto& [stream, sums] : by_stream) CHECK(sums.second == sums.first / 1'000'000);
    const auto& actor = scene.actors()[static_cast<std::size_t>(
        scene.fold().of[static_cast<std::size_t>(rank)])];
    std::int64_t sum = 0;
    std::uint64_t index = 0;
    for (engine::OperationCursor at(scene.timetable(actor), 1); !at.at_join(); at.advance())
      sum += scene.duration(actor, at.operation(), index++);
    CHECK(total == static_cast<std::uint64_t>(sum));
  }
}

TEST_CASE("every send has its receive, and groups list the ranks that name them") {
  const program::Program p = two_stages(3);
  std::map<std::vector<std::uint64_t>, int> open;  // source, destination, tag, bytes
  std::map<std::string, std::vector<int>> named;
  const auto w = written(scene_of(p));
  for (const auto& [rank, bytes] : w.files)
    for (const Node& n : nodes_of(bytes)) {
      if (n.type() == 7 && (named[n.texts.at("pg_name")].empty() ||
                            named[n.texts.at("pg_name")].back() != rank))
        named[n.texts.at("pg_name")].push_back(rank);
      if (n.type() != 5 && n.type() != 6) continue;
      CHECK(n.numbers.at(n.type() == 5 ? "comm_src" : "comm_dst") ==
            static_cast<std::uint64_t>(rank));
      open[{n.numbers.at("comm_src"), n.numbers.at("comm_dst"), n.numbers.at("comm_tag"),
            n.numbers.at("comm_size")}] += n.type() == 5 ? 1 : -1;
    }
  CHECK_FALSE(open.empty());
  for (const auto& [message, left] : open) CHECK(left == 0);
  REQUIRE(named.size() == 2);          // a data group for each stage
  REQUIRE(w.groups.size() == 2);
  for (const auto& [ranks, name] : w.groups) CHECK(named.at(std::to_string(name)) == ranks);
}

TEST_CASE("group 0, all ranks, is listed only where some ranks are not written") {
  program::Program p = two_stages(1);
  for (program::RankClass& k : p.classes)
    for (program::Transfer& t : k.transfers)
      if (t.collective == program::Collective::all_reduce) t.group = program::Group::embedding;
  const engine::Scene scene = scene_of(p);
  const auto all = written(scene);
  for (const auto& [rank, bytes] : all.files)
    for (const Node& n : nodes_of(bytes))
      if (n.type() == 7) CHECK(n.texts.at("pg_name") == "0");
  CHECK(all.groups.empty());           // ASTRA-sim ends where it finds group 0 listed
  CHECK(engine_test::read_back(all).groups.empty());
  CHECK(written(scene, {.ranks = {1}}).groups == engine::ChakraGroups{{{0, 1}, 0}});
}

TEST_CASE("some ranks alone are written, and more nodes than the limit refused before any") {
  const program::Program p = two_stages(2);
  const engine::Scene scene = scene_of(p);
  const auto all = written(scene).files;
  const auto some = written(scene, {.ranks = {3, 0, 3}}).files;
  REQUIRE(some.size() == 2);
  CHECK(nodes_of(some.at(0)).size() == nodes_of(all.at(0)).size());
  int called = 0;
  const engine::ChakraSink sink = [&](int, const std::string&) {
    ++called;
    return core::Status(core::Done{});
  };
  const auto refused = engine::write_chakra(scene, {.ranks = {}, .most_nodes = 3}, sink);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.problems().front().expected == "at most 3 nodes");
  const auto absent = engine::write_chakra(scene, {.ranks = {4}}, sink);
  REQUIRE_FALSE(absent.ok());
  CHECK(absent.problems().front().expected == "ranks below 4");
  CHECK(called == 0);
}
