#include "sim/chakra/read.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <numeric>
#include <span>

#include <fmt/format.h>

#include "core/json.hpp"
#include "core/json_reader.hpp"
#include "core/protobuf.hpp"
#include "core/untrusted.hpp"
#include "sim/chakra/schema.hpp"
#include "sim/chakra/version.hpp"

namespace engine {
namespace {

using namespace chakra;
using core::ProtoFault;
using core::ProtoReader;
using core::Wire;

constexpr std::uint64_t kMostRanks = 1 << 20;
// Durations of one file together; what is longer is no step, and would overflow.
constexpr std::int64_t kMostPicoseconds = 1'000'000'000'000'000'000;  // 11.6 days
constexpr std::size_t kMostDependencies = 8 * kMostChakraNodes;
constexpr std::size_t kMostTextBytes = std::size_t{16} << 20;  // of different names

// An attribute's value, as far as it is one number or one text.
struct Attribute {
  std::string_view name, text;
  std::optional<std::int64_t> number;
  std::optional<double> real;
};

std::int64_t zigzag(std::uint64_t value) {
  return static_cast<std::int64_t>(value >> 1) ^ -static_cast<std::int64_t>(value & 1);
}

class FileReader {
 public:
  FileReader(ChakraTrace& out, std::size_t most_nodes) : out_(out), most_nodes_(most_nodes) {}

  core::Problems run(std::string_view bytes) {
    if (bytes.starts_with("\x1f\x8b"))
      return {problem(0, "an execution trace", "a gzip file", "unpack it: gunzip")};
    ProtoReader file(bytes);
    bool first = true;
    while (std::optional<ProtoReader> message = file.next_message()) {
      const bool metadata = std::exchange(first, false) && !is_node(*message);
      if (!(metadata ? read_metadata(*message) : read_node(*message, file.offset())))
        return {*problem_};
    }
    if (file.fault()) return {fault(*file.fault())};
    if (first) return {problem(0, "an execution trace", "an empty file", "")};
    if (!resolve()) return {*problem_};
    return {};
  }

 private:
  core::Problem problem(std::uint64_t offset, std::string expected, std::string found,
                        std::string fix) const {
    return {fmt::format("{}: byte {}", out_.file, offset), std::move(expected), std::move(found),
            std::move(fix)};
  }
  core::Problem fault(const ProtoFault& f) const {
    return problem(f.offset, f.expected, "damage, or no Chakra execution trace", "");
  }
  bool refuse(std::uint64_t offset, std::string expected, std::string found) {
    problem_ = problem(offset, std::move(expected), std::move(found), "");
    return false;
  }
  bool ended(const ProtoReader& reader) {
    if (reader.fault()) problem_ = fault(*reader.fault());
    return !reader.fault();
  }
  bool is(const ProtoReader& r, Wire wire, std::string_view name) {
    if (r.wire() == wire) return true;
    return refuse(r.offset(), fmt::format("{} as wire type {}", name, static_cast<int>(wire)),
                  fmt::format("wire type {}", static_cast<int>(r.wire())));
  }

  bool read_metadata(ProtoReader& message) {
    while (message.next()) {
      // Until November 2023 attributes stood in this field, and no version.
      if (message.field() != kVersion) continue;
      if (!is(message, Wire::bytes, "the schema's version")) return false;
      if (is_attribute(message.message())) continue;
      states_version_ = true;
      if (!reads_version(message.text())) return refuse_version(message.offset(), message.text());
    }
    return ended(message);
  }
  static bool is_attribute(ProtoReader m) {
    return m.next() && m.field() == kAttributeName && m.wire() == Wire::bytes;
  }
  bool refuse_version(std::size_t offset, std::string_view found) {
    problem_ = problem(offset, std::string(kReadVersions), "version " + core::visible(found),
                       "write the trace with Chakra 0.0.4 or later");
    return false;
  }

  bool read_node(ProtoReader& message, std::size_t offset) {
    if (out_.nodes.size() == most_nodes_)
      return refuse(offset, fmt::format("at most {} nodes in all files", most_nodes_), "more");
    const std::string_view old = states_version_ ? std::string_view() : old_version(message);
    if (!old.empty()) return refuse_version(offset, old);
    ChakraNode n;
    n.offset = offset;
    n.first_dependency = static_cast<std::uint32_t>(dependencies_.size());
    std::optional<std::uint64_t> micros;
    std::string_view metadata;
    exact_ = false;
    while (message.next())
      if (!read_field(message, n, micros, metadata)) return false;
    if (!ended(message)) return false;
    n.dependencies = static_cast<std::uint32_t>(dependencies_.size()) - n.first_dependency;
    if (micros && !exact_) {
      if (*micros > 1'000'000'000'000)
        return refuse(offset, "a duration of at most 10^12 microseconds", std::to_string(*micros));
      n.duration = static_cast<std::int64_t>(*micros) * 1'000'000;
    }
    total_ += static_cast<double>(n.duration) + static_cast<double>(n.beside);
    if (total_ > kMostPicoseconds)
      return refuse(offset, "durations of at most 11 days together", "more");
    if (n.type == kMetadata && !read_groups(metadata, offset)) return false;
    out_.nodes.push_back(n);
    return true;
  }

  bool read_field(ProtoReader& m, ChakraNode& n, std::optional<std::uint64_t>& micros,
                  std::string_view& metadata) {
    switch (m.field()) {
      case kId:
        n.id = m.number();
        return is(m, Wire::varint, "a node's id");
      case kType:
        n.type = static_cast<std::uint8_t>(std::min<std::uint64_t>(m.number(), 255));
        return is(m, Wire::varint, "a node's type");
      case kControlDeps:
      case kDataDeps: return read_dependencies(m);
      case kDurationMicros:
        micros = m.number();
        return is(m, Wire::varint, "duration_micros");
      case kInputs: {
        if (!is(m, Wire::bytes, "a node's inputs")) return false;
        ProtoReader inputs = m.message();
        while (inputs.next())
          if (inputs.field() == kIoValues && inputs.wire() == Wire::bytes) metadata = inputs.text();
        return ended(inputs);
      }
      case kAttribute: return is(m, Wire::bytes, "an attribute") && read_attribute(m, n);
      default: return true;
    }
  }

  bool read_dependencies(const ProtoReader& m) {
    const bool control = m.field() == kControlDeps;
    if (m.wire() == Wire::varint) {
      dependencies_.push_back({m.number(), control});
    } else {
      if (!is(m, Wire::bytes, "dependencies")) return false;
      ProtoReader packed = m.message();
      while (dependencies_.size() <= kMostDependencies) {
        const auto id = packed.next_packed();
        if (!id) break;
        dependencies_.push_back({*id, control});
      }
      if (!ended(packed)) return false;
    }
    return dependencies_.size() <= kMostDependencies ||
           refuse(m.offset(), fmt::format("at most {} dependencies", kMostDependencies), "more");
  }

  bool read_attribute(const ProtoReader& field, ChakraNode& n) {
    Attribute a;
    ProtoReader m = field.message();
    while (m.next()) {
      if (m.field() == kAttributeName && m.wire() == Wire::bytes) a.name = m.text();
      else read_value(m, a);
    }
    return ended(m) && take(a, n, field.offset());
  }

  static void read_value(const ProtoReader& m, Attribute& a) {
    switch (m.field()) {
      case kInt32: case kInt64: case kUint32: case kUint64: case kBool:
      case kFixed32: case kFixed64: case kSfixed32: case kSfixed64:
        if (m.wire() != Wire::bytes) a.number = static_cast<std::int64_t>(m.number());
        return;
      case kSint32: case kSint64:
        if (m.wire() == Wire::varint) a.number = zigzag(m.number());
        return;
      case kDouble:
        if (m.wire() == Wire::fixed64) a.real = std::bit_cast<double>(m.number());
        return;
      case kString:
        if (m.wire() == Wire::bytes) a.text = m.text();
        return;
      default: return;
    }
  }

  // Attributes that are read; the others tell other readers something.
  bool take(const Attribute& a, ChakraNode& n, std::size_t offset) {
    const auto whole = [&](std::int64_t most, auto& out) {
      if (!a.number || *a.number < 0 || *a.number > most)
        return refuse(offset, fmt::format("{} as a whole number from 0 to {}", a.name, most),
                      a.number ? std::to_string(*a.number) : "another value");
      out = static_cast<std::remove_reference_t<decltype(out)>>(*a.number);
      return true;
    };
    if (a.name == "comm_size") return whole(kMostChakraSize, n.size);
    if (a.name == "tensor_size") return n.size > 0 || whole(kMostChakraSize, n.size);
    if (a.name == "comm_type") return whole(kCommTypes - 1, n.comm_type);
    if (a.name == "comm_src") return whole(kMostRanks, n.source);
    if (a.name == "comm_dst") return whole(kMostRanks, n.destination);
    if (a.name == "comm_tag") return whole(std::numeric_limits<std::uint32_t>::max(), n.tag);
    if (a.name == "incast") return whole(kMostRanks, n.incast);
    if (a.name == "beside_picoseconds") return whole(kMostPicoseconds, n.beside);
    if (a.name == kPicosecondsName) return exact_ = true, whole(kMostPicoseconds, n.duration);
    if (a.name == "is_cpu_op") n.on_host = a.number.value_or(0) != 0;
    if (a.name == "num_ops")
      n.operations = a.real.value_or(static_cast<double>(a.number.value_or(0)));
    if (a.name == "pg_name") n.group = text_index(text_of(a));
    if (a.name == kStreamName) n.stream = text_index(text_of(a));
    if (a.name == kAlgorithmName) n.algorithm = text_index(a.text);
    if (a.name == kWhatName) n.what = text_index(a.text);
    return text_bytes_ <= kMostTextBytes ||
           refuse(offset, fmt::format("names of at most {} bytes together", kMostTextBytes),
                  "more");
  }

  static std::string text_of(const Attribute& a) {
    return a.number ? std::to_string(*a.number) : std::string(a.text);
  }
  std::uint32_t text_index(std::string_view text) {
    if (text.empty()) return 0;
    const auto fresh = static_cast<std::uint32_t>(out_.texts.size());
    const auto at = texts_.find(text);
    if (at != texts_.end()) return at->second;
    text_bytes_ += text.size();
    out_.texts.push_back(core::visible(text));
    texts_.emplace(text, fresh);
    return fresh;
  }

  // What PyTorch's process_group:init says: a list of groups as JSON inside a list's text.
  bool read_groups(std::string_view text, std::size_t offset) {
    const std::size_t from = text.find("[{"), to = text.rfind("}]");
    if (from == std::string_view::npos || to == std::string_view::npos || to < from ||
        text.find("pg_name") == std::string_view::npos)
      return true;
    const auto json = core::parse_json(text.substr(from, to + 2 - from), out_.file);
    if (!json.ok() || !json->is_array())
      return refuse(offset, "process groups as JSON", "what is none");
    for (const core::Json& item : json->items()) {
      const core::Json* name = item.find("pg_name");
      const core::Json* ranks = item.find("ranks");
      if (name == nullptr || !name->is_string() || ranks == nullptr || !ranks->is_array())
        return refuse(offset, "pg_name and ranks of each process group", "an entry without");
      ChakraGroup group{core::visible(name->as_string()), {}};
      for (const core::Json& rank : ranks->items()) {
        if (!rank.is_int64() || rank.as_int64() < 0 ||
            rank.as_int64() > static_cast<std::int64_t>(kMostRanks))
          return refuse(offset, "ranks as whole numbers", core::describe(rank));
        group.ranks.push_back(static_cast<int>(rank.as_int64()));
      }
      std::ranges::sort(group.ranks);
      out_.groups.push_back(std::move(group));
    }
    return true;
  }

  // Dependencies by id become indices. O((nodes + dependencies) log nodes).
  bool resolve() {
    const auto id_of = [&](std::uint32_t i) { return out_.nodes[i].id; };
    std::vector<std::uint32_t> order(out_.nodes.size());
    std::iota(order.begin(), order.end(), 0);
    if (!std::ranges::is_sorted(order, {}, id_of)) std::ranges::sort(order, {}, id_of);
    for (std::size_t i = 1; i < order.size(); ++i)
      if (out_.nodes[order[i]].id == out_.nodes[order[i - 1]].id) {
        const ChakraNode& n = out_.nodes[std::max(order[i], order[i - 1])];
        return refuse(n.offset, "a node of another id", fmt::format("{} again", n.id));
      }
    const auto index_of = [&](std::uint64_t id) -> std::optional<std::uint32_t> {
      const auto at = std::ranges::lower_bound(order, id, {}, id_of);
      if (at == order.end() || out_.nodes[*at].id != id) return std::nullopt;
      return *at;
    };
    // PyTorch's traces name the caller of an operation there, and leave some callers out. A caller
    // ends after what it calls, so that is no order.
    const bool callers = std::ranges::any_of(
        dependencies_, [&](const Dependency& d) { return d.control && !index_of(d.id); });
    out_.dependencies.reserve(dependencies_.size());
    for (ChakraNode& n : out_.nodes) {
      const std::span own = std::span(dependencies_).subspan(n.first_dependency, n.dependencies);
      n.first_dependency = static_cast<std::uint32_t>(out_.dependencies.size());
      for (const auto [id, control] : own) {
        if (control && callers) continue;
        const auto at = index_of(id);
        if (!at)
          return refuse(n.offset, "dependencies on nodes of the file", fmt::format("node {}", id));
        out_.dependencies.push_back(*at);
      }
      n.dependencies =
          static_cast<std::uint32_t>(out_.dependencies.size()) - n.first_dependency;
    }
    return true;
  }

  ChakraTrace& out_;
  const std::size_t most_nodes_;
  struct Dependency {
    std::uint64_t id;
    bool control;
  };
  std::vector<Dependency> dependencies_;
  std::map<std::string, std::uint32_t, std::less<>> texts_;
  std::optional<core::Problem> problem_;
  double total_ = 0;                   // picoseconds
  std::size_t text_bytes_ = 0;
  bool states_version_ = false;
  bool exact_ = false;                 // duration_picoseconds was there
};

}  // namespace

core::Result<ChakraTrace> read_chakra(std::string file, std::string_view bytes, int rank,
                                      std::size_t most_nodes) {
  ChakraTrace trace;
  trace.rank = rank;
  trace.file = std::move(file);
  core::Problems problems = FileReader(trace, most_nodes).run(bytes);
  if (!problems.empty()) return problems;
  return trace;
}

core::Result<std::vector<ChakraGroup>> read_chakra_groups(std::string_view text,
                                                          const std::string& file) {
  const core::Result<core::Json> json = core::parse_json(text, file);
  if (!json.ok()) return json.problems();
  core::Problems problems;
  const auto wrong = [&](const core::Json& at, const std::string& pointer, const char* expected) {
    problems.push_back({core::place_of(at, file, pointer), expected, core::describe(at), ""});
  };
  std::vector<ChakraGroup> groups;
  if (!json->is_object()) wrong(*json, "", "an object: ranks by the name of their group");
  for (const core::Json::Member& member : json->is_object() ? json->members()
                                                            : std::vector<core::Json::Member>{}) {
    const std::string pointer = '/' + member.key;
    ChakraGroup group{member.key, {}};
    if (!member.value.is_array() || member.value.size() == 0) {
      wrong(member.value, pointer, "a list of ranks");
      continue;
    }
    for (const core::Json& rank : member.value.items()) {
      const bool good = rank.is_int64() && rank.as_int64() >= 0 &&
                        rank.as_int64() < static_cast<std::int64_t>(kMostRanks);
      if (good) group.ranks.push_back(static_cast<int>(rank.as_int64()));
      else wrong(rank, pointer, "a rank: a whole number");
    }
    std::ranges::sort(group.ranks);
    if (std::ranges::adjacent_find(group.ranks) != group.ranks.end())
      wrong(member.value, pointer, "each rank once");
    groups.push_back(std::move(group));
  }
  if (!problems.empty()) return problems;
  return groups;
}

std::string place_of(const ChakraTrace& trace, const ChakraNode& node) {
  return fmt::format("{}: byte {} (node {})", trace.file, node.offset, node.id);
}

}  // namespace engine
