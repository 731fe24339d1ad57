#include "planner/plan/goodput.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/parse_units.hpp"

namespace planner {
namespace {

using engine::Saving;
using hw_profiles::Failing;
using hw_profiles::FailureRate;

constexpr double kMostFailures = 1e7;

double parts_of(const Plan& plan, const FailureRate& rate) {
  switch (rate.what) {
    case Failing::gpu: return static_cast<double>(plan.gpus);
    case Failing::node:
    case Failing::network: return static_cast<double>(plan.nodes);
    case Failing::a_switch:
      return static_cast<double>((plan.nodes + rate.nodes - 1) / rate.nodes);
    case Failing::software: break;
  }
  return 1;
}

std::int64_t nodes_taken(const Plan& plan, const FailureRate& rate) {
  if (rate.what == Failing::software) return 0;
  return rate.what == Failing::a_switch ? std::min(rate.nodes, plan.nodes) : 1;
}

std::optional<core::Seconds> repair_of(const FailureRate& rate, const FailureOptions& o) {
  return rate.repair ? rate.repair : o.repair;
}

engine::FailingParts failing_parts(const Plan& plan, const FailureRate& rate,
                                   const FailureOptions& o) {
  engine::FailingParts p{.kind = std::string(name(rate.what)),
                         .parts = parts_of(plan, rate),
                         .between = rate.between};
  const auto repair = repair_of(rate, o);
  const bool away = !repair || repair->value() > 0;
  if (away) p.nodes = static_cast<int>(nodes_taken(plan, rate));
  if (repair) p.repair = *repair;
  return p;
}

// The times of saving and restarting, with what they rest on.
class SaveTimes {
 public:
  SaveTimes(const Plan& plan, const cost::Machine& machine, const FailureOptions& o,
            const CheckpointTraffic* traffic, Goodput& g)
      : plan_(plan), machine_(machine), o_(o), traffic_(traffic), g_(g), m_(g.model) {}

  core::Problems run() {
    if (!find_written()) return problems_;
    m_.restart = o_.detect + o_.restart;
    if (o_.saving == Saving::sync)
      m_.save = written_;
    else
      save_behind();
    return problems_;
  }

 private:
  template <class... Args>
  void assume(fmt::format_string<Args...> text, Args&&... args) {
    g_.assumed.push_back(fmt::format(text, std::forward<Args>(args)...));
  }

  bool find_written() {
    if (o_.save) {
      written_ = *o_.save;
      return true;
    }
    problems_ = saved_problems(g_.bytes);
    if (!problems_.empty()) return false;
    if (traffic_ != nullptr && !traffic_->to_nodes) {
      written_ = traffic_->alone;
      assume("a checkpoint of {} (weights and optimizer, each element once) goes over the network "
             "of the steps to storage that takes {}: {} while nothing else does",
             core::to_text(g_.bytes.all), core::to_text(*o_.storage), core::to_text(written_));
      return true;
    }
    written_ = g_.bytes.all / *o_.storage;
    assume("a checkpoint of {} (weights and optimizer, each element once) is written at {}: {}",
           core::to_text(g_.bytes.all), core::to_text(*o_.storage), core::to_text(written_));
    return true;
  }

  void save_behind() {
    const double link = machine_.host_link.value();
    if (link <= 0) {
      problems_.push_back({"--saves", "a GPU whose profile states its link to the host",
                           plan_.profile.gpu.id, "leave --saves out: steps then wait for a save"});
      return;
    }
    const double memory = machine_.host_memory.value();
    const core::BytesPerSecond rate(memory > 0 ? std::min(link, memory) : link);
    m_.save = g_.bytes.on_device / rate;
    assume("steps stop while each GPU copies its share, at most {}, to its host at {}: {}",
           core::to_text(g_.bytes.on_device), core::to_text(rate), core::to_text(m_.save));
    if (o_.saving == Saving::async) {
      m_.behind = written_;
      if (traffic_ != nullptr) return share_links("storage");
      assume("the copy is written to storage behind the steps, which it does not slow down");
      return;
    }
    save_in_memory();
  }

  void save_in_memory() {
    const double network = machine_.internode.value();
    if (plan_.nodes < 2 || network <= 0) {
      problems_.push_back({"--saves", "two nodes or more, joined by a network",
                           fmt::format("{} of them", plan_.nodes), "write --saves async"});
      return;
    }
    const auto of_node = core::Bytes(g_.bytes.of_rank.value() *
                                     std::min(plan_.gpus, plan_.gpus_per_node));
    m_.behind = of_node / machine_.internode;
    m_.stored = written_;
    if (traffic_ != nullptr) share_links("the host of another node");
    m_.restart_stored = m_.restart + written_;
    if (traffic_ == nullptr)
      assume("each node sends its copy, at most {}, to the host of another node at {}: {}, behind "
             "the steps, which it does not slow down", core::to_text(of_node),
             core::to_text(machine_.internode), core::to_text(m_.behind));
    assume("a restart from storage takes {} longer: reading takes as long as writing",
           core::to_text(written_));
    assume("each host has room for {} of copies", core::to_text(of_node * 4));
  }

  void share_links(const char* target) {
    m_.behind = traffic_->behind;
    m_.save += traffic_->delay;
    assume("the copy goes to {} behind the steps in {}, over the links that they use: each "
           "checkpoint delays them by {}", target, core::to_text(m_.behind),
           core::to_text(traffic_->delay));
  }

  const Plan& plan_;
  const cost::Machine& machine_;
  const FailureOptions& o_;
  const CheckpointTraffic* traffic_;
  Goodput& g_;
  engine::FailureModel& m_;
  core::Seconds written_{};
  core::Problems problems_;
};

// What nobody published of the rates, and what happens to failed nodes.
void assume_of_failures(const FailureOptions& o, Goodput& g) {
  for (const hw_profiles::Sourced& s : o.sources)
    if (const std::size_t at = s.source.find("assumed: "); at != std::string::npos)
      g.assumed.push_back(fmt::format("{} failures ({} {}): {}", o.rates_of, s.field, s.text,
                                      s.source.substr(at + std::string_view("assumed: ").size())));
  if (!o.spares) {
    g.assumed.push_back("nodes that replace failed ones are always there");
    return;
  }
  g.assumed.push_back(fmt::format(
      "a failed part takes its node away until it is repaired, with {} standing by; nothing fails "
      "while the job waits for a node",
      *o.spares == 1 ? std::string("1 node") : fmt::format("{} nodes", *o.spares)));
}

void fill_rules(const FailureOptions& o, std::uint64_t seed, Goodput& g) {
  const engine::FailureModel& m = g.model;
  std::vector<std::pair<const char*, std::int64_t>> rules{{"young", engine::young_interval(m)},
                                                          {"daly", engine::daly_interval(m)},
                                                          {"best", engine::best_interval(m)}};
  if (o.interval) rules.emplace_back("asked", *o.interval);
  for (const auto& [name, k] : rules) {
    g.played = engine::play_failures(m, k, o.horizon, seed);
    g.interval = k;
    g.expected = engine::expected_goodput(m, k);
    g.rules.push_back({name, k, engine::daly_goodput(m, k), engine::first_order_goodput(m, k),
                       g.expected, g.played.goodput});
  }
}

}  // namespace

core::Problems failure_problems(const Plan& plan, const FailureOptions& o) {
  core::Problems problems;
  double failures = 0;
  bool repaired = true;
  for (const FailureRate& rate : o.rates) {
    failures += o.horizon / rate.between * parts_of(plan, rate);
    if (nodes_taken(plan, rate) > 0 && !repair_of(rate, o)) repaired = false;
  }
  if (failures > kMostFailures)
    problems.push_back({o.rates.size() == 1 ? "--mtbf" : "--failures",
                        fmt::format("at most {} failures to play",
                                    core::count_text(static_cast<std::int64_t>(kMostFailures))),
                        core::count_text(static_cast<std::int64_t>(std::min(failures, 9e18))),
                        "a shorter --horizon"});
  if (o.spares && !repaired)
    problems.push_back({"--spare-nodes", "a time to repair what fails", "none",
                        "write --repair 24h beside it"});
  return problems;
}

core::Result<Goodput> goodput_of(const Plan& plan, const program::Program& program,
                                 const cost::Machine& machine, core::Seconds step,
                                 const FailureOptions& o, const CheckpointTraffic* traffic,
                                 std::uint64_t seed) {
  Goodput g;
  g.bytes = state_bytes(program);
  g.model.step = step;
  g.model.saving = o.saving;
  g.model.spares = o.spares;
  g.model.nodes = plan.nodes;
  for (const FailureRate& rate : o.rates) g.model.parts.push_back(failing_parts(plan, rate, o));
  const core::Problems problems = SaveTimes(plan, machine, o, traffic, g).run();
  if (!problems.empty()) return problems;
  assume_of_failures(o, g);
  g.wait = engine::expected_wait(g.model);
  fill_rules(o, seed, g);
  g.step = g.expected > 0 ? step / g.expected : core::Seconds(0);
  return g;
}

}  // namespace planner
