// Pictures of networks: the layers in order, and cells that are what the simulation says.
#include <fmt/format.h>

#include "models/spec.hpp"
#include "planner/plan/simulate.hpp"
#include "planner/search/search.hpp"
#include "reports/html/build_page.hpp"
#include "reports/html/write_page.hpp"
#include "tests/catch.hpp"
#include "tests/unit/reports/sample.hpp"

namespace {

using namespace reports::html;
using reports_test::has;

std::size_t count_of(std::string_view text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

// 32 GPUs in four nodes, two at each leaf; four links lead from a leaf to the only spine.
constexpr std::string_view kFabric = R"({"schema": "fabric/1", "id": "tree",
  "nics_per_node": ["8", "t"], "nic_bandwidth": ["400 Gbps", "t"], "nic_efficiency": ["1", "t"],
  "routing": ["ecmp", "t"], "shape": "clos", "nodes_per_leaf": ["2", "t"], "leaf_links": ["4", "t"],
  "spines": ["1", "assumed: a test"], "link_bandwidth": ["400 Gbps", "t"]})";

std::string simulated() {
  planner::Request request;
  request.model = models::find_model("gpt2-124m").value();
  request.gpus = 32;
  request.profile = hw_profiles::find_profile("h100-sxm-80g").value();
  request.job.seq_len = 64;
  request.job.global_batch = 64;
  REQUIRE(request.constraints.pin("data=32").ok());
  const core::Result<planner::Plan> plan = planner::make_plan(request);
  REQUIRE(plan.ok());
  planner::SimulateOptions options;
  options.flows.emplace();
  options.fabric = hw_profiles::fabric_from_json_text(kFabric, "tree.json").value();
  const auto simulation = planner::simulate(*plan, options);
  REQUIRE(simulation.ok());
  return planner::to_json_text(*simulation);
}

}  // namespace

TEST_CASE("a simulated network is drawn from the top down, with the load of each link") {
  const std::string answer = simulated();
  std::vector<Document> documents;
  documents.push_back(parse_document(answer, "simulation.json").value());
  const core::Json& loads = *at(documents[0].root, "/link_loads");
  const auto page = build_page(documents, "test", [](const std::string&) {});
  REQUIRE(page.ok());
  const std::string html = to_html(*page);

  // 4 links of each of 2 leaves, one cell each, and 32 NICs.
  std::size_t place = html.find("class=\"network\"");
  REQUIRE(place != std::string::npos);
  for (const char* row : {"1 spine switch", "leaf to spine", "2 leaf switches", "NIC out", "NIC in",
                          "32 NICs", "GPU out", "GPU in", "32 GPUs"}) {
    INFO(row);
    const std::size_t found = html.find(fmt::format(">{}<", row), place);
    REQUIRE(found != std::string::npos);
    place = found;
  }
  for (const core::Json& tier : loads.find("tiers")->items()) {
    const std::string name = tier.find("tier")->as_string();
    INFO(name);
    const std::size_t label = html.find(fmt::format("aria-label=\"{}: ", name));
    REQUIRE(label != std::string::npos);
    const std::string svg = html.substr(label, html.find("</svg>", label) - label);
    const std::vector<core::Json>& cells = tier.find("cells")->items();
    CHECK(count_of(svg, "<rect") == cells.size());
    CHECK(has(svg, tier.find("busiest")->as_string()));
    for (const core::Json& cell : cells) CHECK(cell.as_double() <= tier.find("most")->as_double());
    if (name == "leaf to spine") {
      REQUIRE(cells.size() == 8);
      for (const core::Json& cell : cells)
        CHECK(has(svg, fmt::format("%\" y=\"18\">{:.0f}<", 100 * cell.as_double())));
    }
  }
  CHECK(has(html, "spines 1: assumed: a test"));
  // Without scripts too, and said in words where there is no picture.
  CHECK(count_of(to_html_part(*page), "class=\"cells\"") == 6);
  CHECK(has(to_markdown(*page), "The busiest link is "));
}

TEST_CASE("a cell has the colour of its share, and a number where there is room for one") {
  NetworkPicture picture{"title", "words", {{"row", "note", {0, 0.0999, 0.1, 0.5, 0.899, 0.9, 1}}}};
  const std::string few = picture_html(picture).text();
  CHECK(count_of(few, "class=\"h0\" x=") == 2);
  CHECK(count_of(few, "class=\"h1\" x=") == 1);
  CHECK(count_of(few, "class=\"h3\" x=") == 1);
  CHECK(count_of(few, "class=\"h4\" x=") == 1);
  CHECK(count_of(few, "class=\"h5\" x=") == 2);
  CHECK(has(few, "class=\"on-h5\" x=\"92.857%\" y=\"18\">100<"));
  picture.rows[0].shares.assign(20, std::numeric_limits<double>::quiet_NaN());
  picture.rows[0].name = "<b>";
  const std::string many = picture_html(picture).text();
  CHECK(count_of(many, "class=\"h0\" x=") == 20);
  CHECK_FALSE(has(many, "<text"));
  CHECK_FALSE(has(many, "nan"));
  CHECK_FALSE(has(many, "<b><b>"));
}

TEST_CASE("loads of links that are none are refused with their place") {
  std::string answer = simulated();
  const std::size_t cells = answer.find("\"cells\": [");
  REQUIRE(cells != std::string::npos);
  answer.replace(cells, 9, "\"cells\": 3, \"more\": ");
  const auto document = parse_document(answer, "bad.json");
  REQUIRE_FALSE(document.ok());
  CHECK(has(core::to_text(document.problems()), "/link_loads/tiers/0/cells"));
}
