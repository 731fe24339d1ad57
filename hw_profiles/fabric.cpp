#include "hw_profiles/fabric.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "core/file.hpp"
#include "core/json.hpp"
#include "core/json_reader.hpp"
#include "core/untrusted.hpp"
#include "hw_profiles/names.hpp"
#include "hw_profiles/parts.hpp"
#include "hw_profiles/quantity_text.hpp"

namespace hw_profiles {
namespace {

constexpr Part kFabric{"fabric", "fabric", "fabrics/"};
constexpr std::size_t kMaxFileBytes = std::size_t{1} << 20;
constexpr std::int64_t kMostSwitches = 4096, kMostNodes = 65536, kMostCount = 4096;

class Reader {
 public:
  Reader(const core::Json& json, std::string_view where)
      : root_(json, std::string(where), "", problems_) {}

  core::Result<Fabric> run() {
    std::string schema;
    constexpr std::string_view kSchemas[] = {"fabric/1"};
    root_.one_of("schema", kSchemas, schema);
    if (root_.required("id", f_.id) && f_.id.empty())
      root_.problem("id", "a text of at least one character", "\"\"");
    root_.optional("about", f_.about);
    count(root_, "gpus_per_node", f_.gpus_per_node, false);
    count(root_, "nics_per_node", f_.nics_per_node);
    rate(root_, "nic_bandwidth", f_.nic_bandwidth);
    if (const auto v = number(root_, "nic_efficiency", Kind::fraction, true))
      f_.nic_efficiency = *v;
    if (const auto v = number(root_, "switch_latency", Kind::seconds, false))
      f_.switch_latency = core::Seconds(*v);
    read_routing();
    if (root_.named("shape", kShapes, f_.shape)) read_shape();
    root_.allow_only_known();
    if (!problems_.empty()) return problems_;
    return std::move(f_);
  }

 private:
  // ["400 Gbps", "source"]
  std::optional<double> number(core::JsonReader& r, std::string_view key, Kind kind, bool needed,
                               std::string_view fix = "") {
    const auto text = sourced(r, key, needed);
    if (!text) return std::nullopt;
    const auto value = parse_quantity(*text, kind);
    if (value.ok()) return *value;
    const core::Problem& p = value.problems().front();
    r.problem(key, p.expected, p.found, p.fix.empty() ? std::string(fix) : p.fix);
    return std::nullopt;
  }

  std::optional<std::string> sourced(core::JsonReader& r, std::string_view key, bool needed) {
    core::Json json;
    if (!(needed ? r.required(key, json) : r.optional(key, json))) return std::nullopt;
    if (json.size() == 2 && json.items()[0].is_string() && json.items()[1].is_string()) {
      const std::string text = json.items()[0].as_string(), source = json.items()[1].as_string();
      if (!text.empty() && !source.empty() && !core::hidden_in(text + source)) {
        f_.sources.push_back({std::string(key), text, source});
        return text;
      }
    }
    r.problem(key, "[\"value unit\", \"source\"], neither of them empty", core::describe(json),
              "state where the number comes from");
    return std::nullopt;
  }

  void count(core::JsonReader& r, std::string_view key, int& out, bool needed = true,
             std::int64_t most = kMostCount) {
    const auto v = number(r, key, Kind::count, needed);
    if (!v) return;
    if (*v > static_cast<double>(most))
      r.problem(key, fmt::format("at most {}", most), fmt::format("{:.0f}", *v),
                "divide the nodes over more switches");
    else
      out = static_cast<int>(*v);
  }

  // Above zero, as parse_quantity reads a bandwidth.
  void rate(core::JsonReader& r, std::string_view key, core::BytesPerSecond& out) {
    const auto v =
        number(r, key, Kind::bytes_per_second, true, "leave out what carries nothing");
    if (v) out = core::BytesPerSecond(*v);
  }

  // ["adaptive", "source"]
  void read_routing() {
    const auto text = sourced(root_, "routing", true);
    if (!text) return;
    const auto known = std::ranges::find(kRoutings, *text, [](Routing r) { return name(r); });
    if (known != kRoutings.end())
      f_.routing = *known;
    else
      root_.problem("routing", "ecmp or adaptive", '"' + *text + '"');
  }

  void read_shape() {
    if (f_.shape == Shape::torus) return read_torus();
    if (f_.shape == Shape::graph) return read_graph();
    rate(root_, "link_bandwidth", f_.link_bandwidth);
    count(root_, "nodes_per_leaf", f_.nodes_per_leaf);
    count(root_, "spines", f_.spines);
    count(root_, "leaf_links", f_.leaf_links, false);
    if (f_.shape == Shape::dragonfly_plus) {
      count(root_, "leaves", f_.leaves);
      count(root_, "global_links", f_.global_links);
      rate(root_, "global_bandwidth", f_.global_bandwidth);
      return;
    }
    count(root_, "rails", f_.rails, false);
    count(root_, "leaves", f_.leaves, false);
    count(root_, "cores", f_.cores, f_.leaves > 0);
    count(root_, "core_links", f_.core_links, false);
    if (f_.rails > f_.nics_per_node)
      root_.problem("rails", fmt::format("at most nics_per_node, {}", f_.nics_per_node),
                    fmt::format("{}", f_.rails), "a rail takes one NIC of each node or more");
  }

  // ["16x16x8", "source"]
  void read_torus() {
    rate(root_, "link_bandwidth", f_.link_bandwidth);
    const auto text = sourced(root_, "dimensions", true);
    if (!text) return;
    std::int64_t switches = 1;
    for (std::string_view rest = *text; !rest.empty();) {
      const std::string_view one = rest.substr(0, rest.find('x'));
      int length = 0;
      const auto [end, error] = std::from_chars(one.data(), one.data() + one.size(), length);
      if (error != std::errc{} || end != one.data() + one.size() || length < 1) {
        root_.problem("dimensions", "lengths as in \"16x16x8\"", '"' + *text + '"');
        return;
      }
      f_.dimensions.push_back(length);
      switches = std::min(switches * length, kNoLimit);
      rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    }
    if (switches > kMostSwitches)
      root_.problem("dimensions", fmt::format("at most {} nodes", kMostSwitches),
                    '"' + *text + '"', "describe the part that the job runs on");
  }

  void read_graph() {
    std::map<std::string, int> known;
    std::vector<core::JsonReader> switches = root_.objects("switches");
    std::vector<core::JsonReader> links = root_.objects("links");
    if (static_cast<std::int64_t>(switches.size()) > kMostSwitches) {
      root_.problem("switches", fmt::format("at most {}", kMostSwitches),
                    fmt::format("{}", switches.size()), "describe the part that the job runs on");
      return;
    }
    for (core::JsonReader& r : switches) read_switch(r, known);
    for (core::JsonReader& r : links) read_link(r, known);
    if (f_.attached.empty() && problems_.empty())
      root_.problem("switches", "nodes at some switch", "none", "write \"nodes\": 8 at a switch");
    if (problems_.empty()) check_ways();
  }

  void read_switch(core::JsonReader& r, std::map<std::string, int>& known) {
    std::string text;
    if (!r.required("name", text)) return;
    const auto index = static_cast<int>(f_.switches.size());
    if (!known.try_emplace(text, index).second) {
      r.problem("name", "a name that no other switch has", '"' + text + '"', "rename one of them");
      return;
    }
    f_.switches.push_back(text);
    std::int64_t nodes = 0;
    if (r.optional("nodes", nodes, core::IntRange{0, kMostCount})) {
      if (static_cast<std::int64_t>(f_.attached.size()) + nodes > kMostNodes)
        r.problem("nodes", fmt::format("at most {} nodes at all switches together", kMostNodes),
                  "more", "describe the part that the job runs on");
      else
        f_.attached.insert(f_.attached.end(), static_cast<std::size_t>(nodes), index);
    }
    r.allow_only_known();
  }

  void read_link(core::JsonReader& r, const std::map<std::string, int>& known) {
    std::vector<std::string> ends;
    FabricLink link;
    if (r.required("between", ends) && ends.size() != 2)
      r.problem("between", "two switches", fmt::format("{}", ends.size()));
    rate(r, "bandwidth", link.bandwidth);
    r.allow_only_known();
    if (ends.size() != 2) return;
    for (const std::string& end : ends) {
      if (known.contains(end)) continue;
      std::vector<std::string_view> names;
      for (const std::string& s : f_.switches) names.push_back(s);
      const std::string near(core::nearest(end, names));
      r.problem("between", "a switch of the list", '"' + end + '"',
                near.empty() ? "add it to switches" : "did you mean " + near + "?");
      return;
    }
    link.a = known.at(ends[0]);
    link.b = known.at(ends[1]);
    if (link.a == link.b)
      r.problem("between", "two different switches", '"' + ends[0] + "\" twice");
    f_.links.push_back(link);
  }

  // Every node must reach every other one.
  void check_ways() {
    std::vector<std::vector<int>> next(f_.switches.size());
    for (const FabricLink& l : f_.links) {
      next[static_cast<std::size_t>(l.a)].push_back(l.b);
      next[static_cast<std::size_t>(l.b)].push_back(l.a);
    }
    std::vector<bool> reached(f_.switches.size(), false);
    std::vector<int> open{f_.attached.front()};
    reached[static_cast<std::size_t>(open[0])] = true;
    while (!open.empty()) {
      const int at = open.back();
      open.pop_back();
      for (const int to : next[static_cast<std::size_t>(at)]) {
        if (reached[static_cast<std::size_t>(to)]) continue;
        reached[static_cast<std::size_t>(to)] = true;
        open.push_back(to);
      }
    }
    for (const int at : f_.attached) {
      if (reached[static_cast<std::size_t>(at)]) continue;
      const std::string& from = f_.switches[static_cast<std::size_t>(f_.attached.front())];
      const std::string& to = f_.switches[static_cast<std::size_t>(at)];
      root_.problem("links", "a way from every switch with nodes to every other",
                    fmt::format("none from {} to {}", from, to),
                    "add a link between their parts");
      return;
    }
  }

  core::Problems problems_;
  core::JsonReader root_;
  Fabric f_;
};

}  // namespace

std::string_view name(Shape shape) {
  constexpr std::array<std::string_view, 4> kNames{"clos", "dragonfly_plus", "torus", "graph"};
  return kNames[static_cast<std::size_t>(shape)];
}

std::string_view name(Routing routing) {
  return routing == Routing::ecmp ? "ecmp" : "adaptive";
}

std::int64_t room(const Fabric& f) {
  if (f.shape == Shape::graph) return static_cast<std::int64_t>(f.attached.size());
  if (f.shape != Shape::torus) return kNoLimit;
  std::int64_t nodes = 1;
  for (const int length : f.dimensions) nodes *= length;
  return nodes;
}

FabricSize size_of(const Fabric& f, std::int64_t nodes) {
  if (f.shape == Shape::graph)
    return {std::ssize(f.switches), std::ssize(std::set(f.attached.begin(), f.attached.end())),
            std::ssize(f.links)};
  if (f.shape == Shape::torus) {
    FabricSize size{room(f), room(f), 0};
    for (const int length : f.dimensions)
      size.links += length == 1 ? 0 : length == 2 ? room(f) / 2 : room(f);
    return size;
  }
  const auto divided = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  const std::int64_t places = divided(nodes, f.nodes_per_leaf);  // of nodes that share leaves
  const std::int64_t leaves = places * f.rails;
  const std::int64_t groups = f.leaves > 0 ? divided(places, f.leaves) : 1;
  const std::int64_t to_spines = leaves * f.spines * f.leaf_links;
  if (f.shape == Shape::dragonfly_plus)
    return {leaves + groups * f.spines, leaves,
            to_spines + groups * (groups - 1) / 2 * f.global_links};
  if (leaves == 1) return {1, 1, 0};
  const std::int64_t cores = groups > 1 ? std::int64_t{f.spines} * f.cores : 0;
  return {leaves + groups * f.spines + cores, leaves, to_spines + groups * cores * f.core_links};
}

std::vector<Sourced> assumptions(const Fabric& f) {
  std::vector<Sourced> assumed;
  for (const Sourced& s : f.sources)
    if (s.source.starts_with("assumed")) assumed.push_back(s);
  if (f.switch_latency.value() == 0)
    assumed.push_back({"switch_latency", "0 ns", "assumed: the fabric's file states none"});
  return assumed;
}

std::vector<std::string> fabric_names() { return ids(kFabric); }

core::Result<Fabric> fabric_from_json_text(std::string_view text, std::string_view where) {
  const core::Result<core::Json> json = core::parse_json(text, where);
  if (!json.ok()) return json.problems();
  return Reader(*json, where).run();
}

core::Result<Fabric> find_fabric(const std::string& wanted) {
  if (const core::EmbeddedFile* file = shipped_file(kFabric, wanted))
    return fabric_from_json_text(file->text, file->name);
  if (!is_path(wanted)) return unknown(wanted, kFabric, "--fabric");
  const auto text = core::read_file(wanted, kMaxFileBytes);
  if (!text.ok()) {
    core::Problems problems = text.problems();
    for (core::Problem& p : problems)
      if (p.fix.empty() && p.found == "more") p.fix = "describe the part that the job runs on";
    return problems;
  }
  return fabric_from_json_text(*text, wanted);
}

}  // namespace hw_profiles
