#include "reports/fit/site_links.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <tuple>

#include <fmt/format.h>
#include <nlopt.h>

#include "core/check.hpp"
#include "hw_profiles/load.hpp"
#include "hw_profiles/numbers.hpp"
#include "sim/cost/measured_network.hpp"

namespace reports::fit {
namespace {

using validation::Pattern;
using validation::Timing;

enum class Reach { pair, inside_node, between_nodes };

// A field that timings set. Between low and high; a factor: times the profile's own value.
struct LinkField {
  std::string_view name;
  Reach reach;
  double low, high;
  bool factor;
};
// A site whose links are ten times slower than its profile's has other links: --gpu FILE, --node.
// A hop of 200 us is twice EFA's, the slowest that is known; 100 us for each rank of a sum twice
// what the slowest published job showed (docs/decisions/0013-hosts-that-run-ahead.md).
constexpr std::array kLinkBounds{
    LinkField{"node.pair_bandwidth", Reach::pair, 0.1, 1.3, true},
    LinkField{"node.pair_latency", Reach::pair, 0.1, 10, true},
    LinkField{"node.link_bandwidth", Reach::inside_node, 0.1, 1.3, true},
    LinkField{"node.link_latency", Reach::inside_node, 0.1, 10, true},
    LinkField{"node.internode_efficiency", Reach::between_nodes, 0.05, 1, false},
    LinkField{"node.internode_latency", Reach::between_nodes, 0.5e-6, 200e-6, false},
    LinkField{"node.tree_wait", Reach::between_nodes, 1e-9, 100e-6, false}};
constexpr std::string_view kTreeWait = "node.tree_wait";
constexpr std::string_view kEfficiency = "node.internode_efficiency";  // absent: 1
constexpr int kEvaluations = 2000;
// A sum that waits less than this for each rank does not wait.
constexpr double kNoWait = 0.02e-6;
// Changes of a field, and gains of another protocol, that timings cannot tell from none.
constexpr double kSame = 0.005;

using Groups = std::map<std::tuple<std::string_view, int, int>, std::vector<Timing>>;

// Two GPUs of a node with bridges share one.
bool paired(const Timing& t, const hw_profiles::Profile& profile) {
  return t.nodes == 1 && t.gpus == 2 && profile.node.link == hw_profiles::LinkKind::nvlink_pairs;
}

Groups groups_of(std::span<const Timing> timings, Reach reach,
                 const hw_profiles::Profile& profile) {
  Groups groups;
  for (const Timing& t : timings) {
    const Reach of = t.nodes > 1             ? Reach::between_nodes
                     : paired(t, profile) ? Reach::pair
                                             : Reach::inside_node;
    if (of == reach) groups[{t.pattern.name, t.nodes, t.gpus}].push_back(t);
  }
  return groups;
}

double error_of(const std::vector<Timing>& group, const hw_profiles::Profile& profile,
                auto size_of) {
  const cost::Fabric fabric = cost::make_fabric(profile);
  double sum = 0;
  for (const Timing& t : group)
    sum += size_of(validation::predicted_timing(t, fabric, paired(t, profile)).time / t.time);
  return sum / static_cast<double>(group.size());
}

double misfit_of(const Groups& groups, const hw_profiles::Profile& profile) {
  double sum = 0;
  for (const auto& [key, group] : groups)
    sum += error_of(group, profile, [](double ratio) { return std::abs(std::log(ratio)); });
  return sum / static_cast<double>(groups.size());
}

double value_of(const hw_profiles::Profile& p, std::string_view field) {
  return hw_profiles::number_of(p, field).value_or(field == kEfficiency ? 1 : 0);
}

// What the card's links carry at most bounds their rate.
double most_rate(const hw_profiles::Profile& p, const LinkField& f) {
  const bool nvlink = f.reach == Reach::pair || hw_profiles::links_all(p.node.link);
  const auto& most = nvlink ? p.gpu.nvlink_bandwidth : p.gpu.pcie_bandwidth;
  return most ? most->value() : 1e300;
}

std::pair<double, double> bounds_of(const hw_profiles::Profile& p, const LinkField& f) {
  const double now = value_of(p, f.name), unit = f.factor ? now : 1;
  double most = f.high * unit;
  if (f.name.ends_with("_bandwidth")) most = std::max(now, std::min(most, most_rate(p, f)));
  return {f.low * unit, most};
}

struct Unknowns {
  const Groups& groups;
  hw_profiles::Profile profile;
  std::vector<LinkField> fields;
  std::vector<double> low, high, at;   // logarithms

  void add(const LinkField& f) {
    const auto [least, most] = bounds_of(profile, f);
    const double now = value_of(profile, f.name);
    fields.push_back(f);
    low.push_back(std::log(least));
    high.push_back(std::log(most));
    at.push_back(std::clamp(now > 0 ? std::log(now) : low.back(), low.back(), high.back()));
  }
  hw_profiles::Profile with(const double* logarithms) const {
    hw_profiles::Profile p = profile;
    for (std::size_t i = 0; i < fields.size(); ++i)
      hw_profiles::put_number(p, fields[i].name, std::exp(logarithms[i]));
    return p;
  }
};

double misfit_at(unsigned, const double* logarithms, double*, void* data) {
  const auto& unknowns = *static_cast<const Unknowns*>(data);
  return misfit_of(unknowns.groups, unknowns.with(logarithms));
}

// The profile with the fields that fit best, and their misfit.
std::pair<hw_profiles::Profile, double> fitted(Unknowns unknowns) {
  const auto n = static_cast<unsigned>(unknowns.fields.size());
  const std::unique_ptr<nlopt_opt_s, void (*)(nlopt_opt)> opt(nlopt_create(NLOPT_LN_SBPLX, n),
                                                              nlopt_destroy);
  PLANNER_CHECK(opt != nullptr, "NLopt has no memory");
  nlopt_set_lower_bounds(opt.get(), unknowns.low.data());
  nlopt_set_upper_bounds(opt.get(), unknowns.high.data());
  nlopt_set_min_objective(opt.get(), misfit_at, &unknowns);
  nlopt_set_xtol_abs1(opt.get(), 1e-4);
  nlopt_set_maxeval(opt.get(), kEvaluations);
  double least = 0;
  std::vector<double> at = unknowns.at;
  nlopt_optimize(opt.get(), at.data(), &least);  // a limit reached is an answer too
  hw_profiles::Profile best = unknowns.with(at.data());
  if (best.node.tree_wait && best.node.tree_wait->value() < kNoWait) best.node.tree_wait.reset();
  return {best, misfit_of(unknowns.groups, best)};
}

bool sums(const Pattern& p) {
  return p.kind == Pattern::Kind::collective &&
         p.collective == program::Collective::all_reduce;
}
bool gathers(const Pattern& p) {
  return p.kind == Pattern::Kind::collective &&
         (p.collective == program::Collective::all_gather ||
          p.collective == program::Collective::reduce_scatter);
}

bool any(std::span<const Timing> timings, bool (*wanted)(const Pattern&)) {
  return std::ranges::any_of(timings, [&](const Timing& t) {
    return t.nodes > 1 && wanted(t.pattern);
  });
}

bool one_size(const Groups& groups) {
  return std::ranges::all_of(groups, [](const auto& g) { return g.second.size() == 1; });
}

hw_profiles::Profile inside(Reach reach, const Groups& groups,
                            const hw_profiles::Profile& profile) {
  if (groups.empty()) return profile;
  Unknowns unknowns{groups, profile, {}, {}, {}, {}};
  for (const LinkField& f : kLinkBounds)
    if (f.reach == reach && value_of(profile, f.name) > 0 &&
        !(f.name.ends_with("_latency") && one_size(groups)))
      unknowns.add(f);
  return fitted(std::move(unknowns)).first;
}

hw_profiles::Profile between_nodes(const Groups& groups, bool both,
                                   const hw_profiles::Profile& profile) {
  const auto with_protocols = [&](bool low_latency) {
    Unknowns unknowns{groups, profile, {}, {}, {}, {}};
    unknowns.profile.node.nccl_low_latency = low_latency;
    for (const LinkField& f : kLinkBounds)
      if (f.reach == Reach::between_nodes && (f.name != kTreeWait || both)) unknowns.add(f);
    return fitted(std::move(unknowns));
  };
  const bool usual = profile.node.nccl_low_latency.value_or(true);
  auto as_usual = with_protocols(usual), other = with_protocols(!usual);
  return other.second < (1 - kSame) * as_usual.second ? other.first : as_usual.first;
}

// As jobs that measure their network at one size.
core::Result<hw_profiles::Profile> by_one_size(const Groups& groups,
                                               hw_profiles::Profile profile) {
  cost::MeasuredNetwork m;
  for (const auto& [key, group] : groups) {
    const Timing& t = group.front();
    const core::BytesPerSecond bus(validation::bus_factor(t.pattern, t.gpus) *
                                   static_cast<double>(t.bytes.value()) / t.time.value());
    m.gpus = t.gpus, m.bytes = t.bytes;
    if (sums(t.pattern)) m.all_reduce = bus;
    else if (gathers(t.pattern)) m.gather = std::max(m.gather, bus);
  }
  const bool alike = std::ranges::all_of(groups, [&](const auto& g) {
    return g.second.front().gpus == m.gpus && g.second.front().bytes == m.bytes;
  });
  if (!alike || m.all_reduce.value() <= 0 || m.gather.value() <= 0)
    return core::Problem{"--busbw", "several sizes, or one size of an all-reduce and of a gather "
                                    "over the same ranks",
                         "one size", "nccl-tests: -b 8 -e 4G -f 2"};
  cost::use_measured_network(profile, m);
  return profile;
}

void state_changes(const hw_profiles::Profile& before, std::string_view source, SiteLinks& out) {
  const auto add = [&](std::string_view field, std::string text, bool of_network) {
    out.fields.push_back({std::string(field), std::move(text), std::string(source),
                          of_network ? "" : before.gpu.id});
  };
  const hw_profiles::Node& now = out.profile.node;
  for (const LinkField& f : kLinkBounds) {
    const double was = value_of(before, f.name), is = value_of(out.profile, f.name);
    if (std::abs(is - was) <= kSame * was) continue;
    add(f.name, hw_profiles::rounded_text(f.name, is), f.reach == Reach::between_nodes);
    const auto [least, most] = bounds_of(before, f);
    const bool least_of_all = is < (1 + kSame) * least && f.name != kTreeWait;
    const bool most_of_all = is > (1 - kSame) * most && f.name != kEfficiency;  // 1 is the wire's
    if (least_of_all || most_of_all) out.at_bounds.emplace_back(f.name);
  }
  if (now.rank_wait && now.rank_wait != before.node.rank_wait)
    add("node.rank_wait", hw_profiles::rounded_text("node.rank_wait", now.rank_wait->value()),
        true);
  if (now.nccl_low_latency.value_or(true) != before.node.nccl_low_latency.value_or(true))
    add("node.nccl_low_latency", *now.nccl_low_latency ? "yes" : "no", true);
}

core::Problems misplaced(std::span<const Timing> timings, const hw_profiles::Profile& profile) {
  core::Problems problems;
  if (!profile.gpu.compute_capability)
    problems.push_back({"--gpu", "a GPU", profile.gpu.id, "name one of `planner gpus`"});
  std::set<int> seen;
  for (const Timing& t : timings) {
    const int on_node = t.gpus / t.nodes;
    if (on_node > profile.node.gpus_per_node && seen.insert(on_node).second)
      problems.push_back({"--busbw", fmt::format("at most {} GPUs on a node of {}",
                                                 profile.node.gpus_per_node, profile.gpu.id),
                          std::to_string(on_node), "--node names another machine"});
  }
  return problems;
}

}  // namespace

core::Result<SiteLinks> links_of(std::span<const Timing> timings,
                                 const hw_profiles::Profile& profile, std::string_view source) {
  if (core::Problems problems = misplaced(timings, profile); !problems.empty()) return problems;
  SiteLinks out;
  out.gpu = profile.gpu.id;
  out.profile = profile;
  std::vector<Groups> all;
  for (const Reach reach : {Reach::pair, Reach::inside_node}) {
    all.push_back(groups_of(timings, reach, profile));
    out.profile = inside(reach, all.back(), out.profile);
  }
  const Groups& between = all.emplace_back(groups_of(timings, Reach::between_nodes, profile));
  if (!between.empty() && one_size(between)) {
    auto measured = by_one_size(between, out.profile);
    if (!measured.ok()) return measured.problems();
    out.profile = std::move(measured).value();
  } else if (!between.empty()) {
    out.profile = between_nodes(between, any(timings, sums) && any(timings, gathers), out.profile);
  }
  state_changes(profile, source, out);
  const auto size_of = [](double ratio) { return std::abs(ratio - 1); };
  for (const Groups& groups : all)
    for (const auto& [key, group] : groups)
      out.groups.push_back({std::string(std::get<0>(key)), std::get<2>(key), std::get<1>(key),
                            group.size(), error_of(group, profile, size_of),
                            error_of(group, out.profile, size_of)});
  return out;
}

std::string site_links_text(const SiteLinks& links, TextStyle style) {
  Table table({{"collective", Align::left}, {"GPUs"}, {"nodes"}, {"timings"}, {"error before"},
               {"after"}});
  for (const LinkGroup& g : links.groups)
    table.add({g.collective, fmt::format("{}", g.gpus), fmt::format("{}", g.nodes),
               fmt::format("{}", g.timings), percent_text(g.before), percent_text(g.after)});
  std::string text = wrapped(fmt::format("Mean error of the predicted times of your collectives, "
                                         "with the links of {} as shipped and as measured:",
                                         links.gpu),
                             0, 0, style) +
                     table.text(style);
  if (links.fields.empty())
    return text + "The links are as the profile says: nothing is changed.\n";
  text += "Measured at your site:\n";
  for (const hw_profiles::MeasuredField& f : links.fields)
    text += fmt::format("  {:<27} {}\n", f.field, f.value);
  for (const std::string& field : links.at_bounds)
    text += wrapped(field + " is as far from the profile as a site may be. If the GPUs are linked "
                            "in another way, --node names their machine.",
                    0, 0, style);
  return text;
}

}  // namespace reports::fit
