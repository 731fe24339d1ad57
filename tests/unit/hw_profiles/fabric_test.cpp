// Fabrics: the shipped ones, and what is said of files that cannot be meant.
#include "hw_profiles/fabric.hpp"

#include <string>

#include "tests/catch.hpp"

using hw_profiles::Fabric;

namespace {

std::string file(const std::string& routing_and_shape) {
  return R"({"schema": "fabric/1", "id": "mine", "nics_per_node": ["8", "test"],
  "nic_bandwidth": ["400 Gbps", "test"], "nic_efficiency": ["0.9", "test"],)" +
         routing_and_shape + "}";
}
std::string graph(const std::string& switches, const std::string& links) {
  return file(R"("routing": ["ecmp", "test"], "shape": "graph", "switches": [)" + switches +
              R"(], "links": [)" + links + "]");
}
std::string link(const std::string& a, const std::string& b, const std::string& rate) {
  return R"({"between": [")" + a + R"(", ")" + b + R"("], "bandwidth": [")" + rate +
         R"(", "test"]})";
}

// Everything that is said of a file, in one text.
std::string said(const std::string& text) {
  const auto read = hw_profiles::fabric_from_json_text(text, "mine.json");
  return read.ok() ? "nothing" : core::to_text(read.problems());
}
bool says(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("every shipped fabric is read, and each of its numbers has a source") {
  REQUIRE(hw_profiles::fabric_names().size() >= 6);
  for (const std::string& name : hw_profiles::fabric_names()) {
    INFO(name);
    const auto fabric = hw_profiles::find_fabric(name);
    REQUIRE(fabric.ok());
    CHECK(fabric->id == name);
    for (const hw_profiles::Sourced& s : fabric->sources) CHECK(!s.source.empty());
  }
  const Fabric pod = hw_profiles::find_fabric("dgx-superpod").value();
  // The table of counts: 4 units of 32 nodes have 1,024 links from leaves to spines.
  CHECK(pod.rails * pod.leaves * pod.spines * pod.leaf_links == 1024);
  CHECK(size_of(pod, 128).switches == 32 + 16);
  CHECK(size_of(pod, 128).links == 1024);
  CHECK(says(core::to_text(hw_profiles::find_fabric("dgx-superpot").problems()), "dgx-superpod"));
}

TEST_CASE("shipped fabrics have the counts and the bandwidth that their sources state") {
  // 8 racks of 18 trays with 4 NICs, non-blocking: 576 NICs and as many links to the spines.
  const Fabric racks = hw_profiles::find_fabric("gb200-nvl72").value();
  CHECK(racks.nics_per_node * racks.leaves == 576);
  CHECK(size_of(racks, 8).leaves == 32);
  CHECK(size_of(racks, 8).links == 576);
  // A group of 240 nodes whose leaves have as much bandwidth to the spines as to nodes.
  const Fabric jupiter = hw_profiles::find_fabric("jupiter").value();
  CHECK(jupiter.nodes_per_leaf * jupiter.leaves == 240);
  CHECK(jupiter.nic_bandwidth * (jupiter.nodes_per_leaf * jupiter.nics_per_node) ==
        jupiter.link_bandwidth * (jupiter.spines * jupiter.leaf_links));
  CHECK(size_of(jupiter, 25 * 240).switches == 25 * (15 + 16));
  // 1,024 chips with six links each.
  const Fabric torus = hw_profiles::find_fabric("tpu-v5p-torus").value();
  CHECK(room(torus) == 1024);
  CHECK(size_of(torus, 1).links == 1024 * 6 / 2);
  CHECK(torus.link_bandwidth * 6 == torus.nic_bandwidth);
  // 48 NICs below a leaf and 16 links above it.
  const Fabric small = hw_profiles::find_fabric("leaf-spine-3to1").value();
  CHECK(small.nodes_per_leaf * small.nics_per_node == 3 * small.spines * small.leaf_links);
  CHECK(small.nodes_per_leaf * small.nics_per_node + small.spines * small.leaf_links == 64);
}

TEST_CASE("what a fabric assumes is listed, and so is a latency that it does not state") {
  Fabric f;
  f.sources = {{"spines", "4", "assumed: an example"}, {"rails", "8", "a data sheet"}};
  REQUIRE(assumptions(f).size() == 2);
  CHECK(assumptions(f)[0] == f.sources[0]);
  CHECK(assumptions(f)[1].field == "switch_latency");
  f.switch_latency = core::Seconds{300e-9};
  CHECK(assumptions(f).size() == 1);
  for (const std::string& name : hw_profiles::fabric_names()) {
    const Fabric shipped = hw_profiles::find_fabric(name).value();
    for (const hw_profiles::Sourced& s : shipped.sources) {
      INFO(name << ' ' << s.field << ": " << s.source);
      CHECK_FALSE(says(s.source, "unverified"));  // a source is checked, or the number is assumed
    }
  }
}

TEST_CASE("a graph of switches is read: names, nodes, links") {
  const auto f = hw_profiles::fabric_from_json_text(
      graph(R"({"name": "a", "nodes": 2}, {"name": "b", "nodes": 1}, {"name": "top"})",
            link("a", "top", "400 Gbps") + ", " + link("top", "b", "100 Gbps")),
      "mine.json");
  REQUIRE(f.ok());
  CHECK(f->attached == std::vector<int>{0, 0, 1});
  CHECK(room(*f) == 3);
  REQUIRE(f->links.size() == 2);
  CHECK(f->links[1].bandwidth == core::BytesPerSecond{12.5e9});
}

TEST_CASE("a bad fabric is refused with what is wrong and how to mend it") {
  const std::string a = R"({"name": "a", "nodes": 1})", b = R"({"name": "b", "nodes": 1})";
  const std::string c = R"({"name": "c"})", d = R"({"name": "d"})";
  const std::string good = link("a", "b", "400 Gbps");
  CHECK(said(graph(a + "," + b, good)) == "nothing");
  // A name twice; a link of nothing; a switch that is not there; one linked with itself.
  CHECK(says(said(graph(a + "," + a, good)), "a name that no other switch has"));
  CHECK(says(said(graph(a + "," + b, link("a", "b", "0 Gbps"))),
             "leave out what carries nothing"));
  CHECK(says(said(graph(a + "," + b, link("a", "bb", "1 Gbps"))), "did you mean b?"));
  CHECK(says(said(graph(a + "," + b, good + "," + link("a", "a", "1 Gbps"))), "twice"));
  // A cycle of switches that leads nowhere.
  const std::string cycle = link("a", "c", "1 Gbps") + "," + link("c", "d", "1 Gbps") + "," +
                            link("d", "a", "1 Gbps");
  CHECK(says(said(graph(a + "," + b + "," + c + "," + d, cycle)), "none from a to b"));
  CHECK(says(said(graph(c + "," + d, link("c", "d", "1 Gbps"))), "nodes at some switch"));
  std::string unknown_routing = graph(a + "," + b, good);
  unknown_routing.replace(unknown_routing.find("ecmp"), 4, "best");
  CHECK(says(said(unknown_routing), "ecmp or adaptive"));
}

TEST_CASE("a fabric of a million nodes is refused before anything is built") {
  const std::string torus = R"("routing": ["adaptive", "test"], "shape": "torus",
    "link_bandwidth": ["400 Gbps", "test"], "dimensions": [")";
  CHECK(said(file(torus + R"(16x16x8", "test"])")) == "nothing");
  CHECK(says(said(file(torus + R"(100x100x100", "test"])")), "at most 4096 nodes"));
  CHECK(says(said(file(torus + R"(99999x99999x99999x99999x99999", "test"])")), "at most"));
  CHECK(says(said(file(torus + R"(4x-1", "test"])")), "lengths as in"));
  const std::string clos = R"("routing": ["ecmp", "t"], "shape": "clos",
    "link_bandwidth": ["1 Gbps", "t"], "spines": ["2", "t"], "nodes_per_leaf": [")";
  CHECK(says(said(file(clos + R"(1000000", "t"])")), "at most 4096"));
  std::string many;
  for (int i = 0; i < 250; ++i)
    many += (i > 0 ? ", " : "") + (R"({"name": ")" + std::to_string(i) + R"(", "nodes": 4000})");
  CHECK(says(said(graph(many, link("0", "1", "1 Gbps"))), "at most 65536 nodes"));
  for (int i = 250; i < 5000; ++i) many += R"(, {"name": ")" + std::to_string(i) + R"("})";
  const std::string switches = said(graph(many, ""));
  CHECK(says(switches, "at most 4096, found 5000"));
  CHECK_FALSE(says(switches, "known key"));
  CHECK(says(said(file(clos + R"(2", ""])")), "source"));
  CHECK(says(said(file(clos + R"(2", "t"], "rails": ["9", "t"])")), "at most nics_per_node"));
  CHECK(says(said(file(clos + R"(2", "t"], "leafs": ["2", "t"])")), "leaves"));
}
