// How busy the links of a simulated network are: a picture from the top of the network down to the
// GPUs, and the same figures as tables.
#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "core/parse_units.hpp"
#include "reports/html/sections.hpp"
#include "reports/text.hpp"

namespace reports::html {
namespace {

using core::Json;

double number_at(const Document& d, const std::string& pointer) {
  const Json* found = at(d.root, pointer);
  return found != nullptr && found->is_number() ? found->as_double() : 0;
}

// A layer of the network, and which tiers (indices) are drawn above and below it.
struct Layer {
  std::string name;
  std::vector<std::size_t> above{}, below{};
};

std::vector<Layer> layers_of(const Document& d) {
  std::vector<Layer> layers;
  for (std::size_t i = 0; i < count_at(d, "/link_loads/layers"); ++i)
    layers.push_back({text_at(d, fmt::format("/link_loads/layers/{}/layer", i))});
  return layers;
}

// "1,024 GPUs", "1 leaf switch".
std::string layer_text(const std::string& layer, double count) {
  std::string what = layer;
  if (layer == "leaf" || layer == "spine" || layer == "core") what += " switch";
  const char* plural = count == 1 ? "" : what.ends_with("switch") ? "es" : "s";
  return fmt::format("{} {}{}", core::count_text(static_cast<std::int64_t>(count)), what, plural);
}

// "leaf to spine" joins two layers and is drawn below the upper one; what joins a layer with itself
// is drawn above it. GPU's, NIC's and node's own links lead to the layer above theirs.
void place_tier(const std::string& tier, std::size_t index, std::vector<Layer>& layers) {
  const auto layer_of = [&](std::string_view name) {
    const auto found = std::ranges::find(layers, name, &Layer::name);
    return static_cast<std::size_t>(found - layers.begin());
  };
  const std::size_t to = tier.find(" to ");
  std::size_t low = 0, high = 0;
  if (to == std::string::npos) {
    const std::size_t own = layer_of(tier == "bridge" ? "GPU" : tier.substr(0, tier.find(' ')));
    low = own < layers.size() ? own : 0;
    high = low + 1 < layers.size() ? low + 1 : low;
  } else {
    low = std::min(layer_of(tier.substr(0, to)), layers.size() - 1);
    high = std::min(layer_of(tier.substr(to + 4)), layers.size() - 1);
    if (low > high) std::swap(low, high);
  }
  (low == high ? layers[high].above : layers[high].below).push_back(index);
}

std::string note_of(const Document& d, const std::string& base, bool worst_of_alike) {
  const auto fraction = [&](const char* key) { return cell(d, base + key, Unit::fraction).text; };
  const double per_cell = number_at(d, base + "/links_per_cell");
  const std::string each =
      per_cell > 1 ? fmt::format(", each cell the busiest of {:.0f}", per_cell) : "";
  const std::string mean = worst_of_alike ? "" : "mean " + fraction("/mean") + ", ";
  return fmt::format("{} links of {}{}: {}busiest {} ({})",
                     cell(d, base + "/links", Unit::count).text,
                     core::to_text(core::BytesPerSecond(number_at(d, base + "/bandwidth"))), each,
                     mean, fraction("/most"), text_at(d, base + "/busiest"));
}

NetworkPicture picture_of(const Document& d, bool worst_of_alike) {
  NetworkPicture picture;
  picture.title = "How busy the links are over a step, in percent of their bandwidth";
  std::vector<Layer> layers = layers_of(d);
  std::size_t busiest = 0;
  const auto base_of = [](std::size_t tier) { return fmt::format("/link_loads/tiers/{}", tier); };
  const std::size_t tiers = count_at(d, "/link_loads/tiers");
  for (std::size_t t = 0; t < tiers && !layers.empty(); ++t) {
    place_tier(text_at(d, base_of(t) + "/tier"), t, layers);
    if (number_at(d, base_of(t) + "/most") > number_at(d, base_of(busiest) + "/most")) busiest = t;
  }
  const auto add_band = [&](std::size_t t) {
    PictureRow row{text_at(d, base_of(t) + "/tier"), note_of(d, base_of(t), worst_of_alike)};
    for (std::size_t c = 0; c < count_at(d, base_of(t) + "/cells"); ++c)
      row.shares.push_back(number_at(d, fmt::format("{}/cells/{}", base_of(t), c)));
    picture.rows.push_back(std::move(row));
  };
  for (std::size_t l = layers.size(); l-- > 0;) {
    for (const std::size_t t : layers[l].above) add_band(t);
    const double count = number_at(d, fmt::format("/link_loads/layers/{}/count", l));
    picture.rows.push_back({layer_text(layers[l].name, count), ""});
    for (const std::size_t t : layers[l].below) add_band(t);
  }
  if (tiers > 0)
    picture.alternative = fmt::format(
        "The busiest link is {}: it carries {} of what it could in a step.",
        text_at(d, base_of(busiest) + "/busiest"),
        cell(d, base_of(busiest) + "/most", Unit::fraction).text);
  return picture;
}

PageTable tiers_table(const Document& d) {
  PageTable table{"Load of each kind of link",
                  {{"links", false}, {"number"}, {"bandwidth", false}, {"mean"}, {"busiest"}}, {},
                  true};
  for (std::size_t t = 0; t < count_at(d, "/link_loads/tiers"); ++t) {
    const std::string base = fmt::format("/link_loads/tiers/{}", t);
    table.rows.push_back(
        {cell(d, base + "/tier", Unit::text), cell(d, base + "/links", Unit::count),
         words(core::to_text(core::BytesPerSecond(number_at(d, base + "/bandwidth")))),
         cell(d, base + "/mean", Unit::fraction), cell(d, base + "/most", Unit::fraction)});
  }
  return table;
}

// Of all kinds, busiest first.
PageTable worst_table(const Document& d) {
  std::vector<std::pair<double, std::string>> worst;
  for (std::size_t t = 0; t < count_at(d, "/link_loads/tiers"); ++t)
    for (std::size_t w = 0; w < count_at(d, fmt::format("/link_loads/tiers/{}/worst", t)); ++w) {
      const std::string base = fmt::format("/link_loads/tiers/{}/worst/{}", t, w);
      worst.emplace_back(-number_at(d, base + "/share"), base);
    }
  std::ranges::stable_sort(worst, {}, &std::pair<double, std::string>::first);
  PageTable table{"The busiest links of each kind",
                  {{"link", false}, {"load"}, {"carried in a step"}},
                  {}, false};
  for (const auto& [share, base] : worst)
    table.rows.push_back({cell(d, base + "/link", Unit::text),
                          cell(d, base + "/share", Unit::fraction),
                          cell(d, base + "/bytes", Unit::bytes)});
  return table;
}

PageTable checkpoint_table(const Document& d) {
  PageTable table{"Checkpoint over these links", {{"what", false}, {"value"}}, {}, false};
  const auto row = [&](const char* what, const char* key, Unit unit) {
    table.rows.push_back({words(what), cell(d, fmt::format("/checkpoint_traffic/{}", key), unit)});
  };
  row("goes to", "to", Unit::text);
  row("bytes", "bytes", Unit::bytes);
  if (at(d.root, "/checkpoint_traffic/storage")->is_number())
    table.rows.push_back(
        {words("storage takes"), words(core::to_text(core::BytesPerSecond(number_at(
                                     d, "/checkpoint_traffic/storage"))))});
  row("time while no step runs", "alone", Unit::seconds);
  row("time behind the steps", "behind", Unit::seconds);
  row("makes the steps longer by", "delay", Unit::seconds);
  row("a step meanwhile", "step", Unit::seconds);
  std::erase_if(table.rows, [](const auto& cells) { return cells.back().text == "-"; });
  return table;
}

}  // namespace

Section links_section(const Document& d) {
  const Json* flag = at(d.root, "/link_loads/worst_of_alike");
  const bool worst_of_alike = flag != nullptr && flag->is_bool() && flag->as_bool();
  Section section{"Links", {picture_of(d, worst_of_alike)}};
  if (worst_of_alike)
    section.blocks.push_back(
        Text{"Ranks that are alike but for the hashes of their routes were simulated once, over "
             "the busiest of their links. simulate --unfold simulates every rank.",
             TextKind::note});
  section.blocks.push_back(worst_table(d));
  section.blocks.push_back(tiers_table(d));
  if (d.root.find("checkpoint_traffic") != nullptr) section.blocks.push_back(checkpoint_table(d));
  PageTable assumed{"Numbers of the fabric that are assumed",
                    {{"number and reason", false}}, {}, true};
  for (std::size_t i = 0; i < count_at(d, "/conditions/fabric_assumptions"); ++i)
    assumed.rows.push_back(
        {cell(d, fmt::format("/conditions/fabric_assumptions/{}", i), Unit::text)});
  if (!assumed.rows.empty()) section.blocks.push_back(std::move(assumed));
  return section;
}

}  // namespace reports::html
