#include "sim/engine/scene.hpp"

#include <algorithm>
#include <map>

#include "core/check.hpp"
#include "core/random.hpp"
#include "sim/cost/link.hpp"
#include "sim/cost/mixed.hpp"
#include "sim/program/turns.hpp"

namespace engine {
namespace {

using program::ActionKind;
using program::Group;

// Meetings with the same key follow one another in the order in which each party issues them.
struct ChannelKey {
  ChannelKind kind{};
  Group group{};                       // of collectives
  program::Stream stream{};            // of collectives
  // Folds: sender and receiver, or the group's lowest; of pushes and pulls, that and turn_of().
  int first = 0, second = 0;
  std::uint16_t tag = 0;               // of messages
  friend auto operator<=>(const ChannelKey&, const ChannelKey&) = default;
};

ChannelKind kind_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::collective: return ChannelKind::collective;
    case ActionKind::send:
    case ActionKind::receive: return ChannelKind::message;
    case ActionKind::push:
    case ActionKind::serve_push: return ChannelKind::push;
    default: return ChannelKind::pull;
  }
}

class Seating {
 public:
  Seating(const program::Program& p, const Groups& groups, const Fold& fold)
      : p_(p), groups_(groups), fold_(fold) {
    for (std::size_t g = 0; g < kGroupKinds; ++g) lowest_[g] = lowest_folds(g);
  }

  ChannelKey key(const program::RankClass& k, int rank, const MeetingPoint& point) const {
    const program::Transfer& t = k.transfers[point.transfer];
    const auto at = static_cast<std::size_t>(rank);
    const ChannelKind kind = kind_of(point.kind);
    if (kind == ChannelKind::message) {
      const int self = fold_.of[at];
      const int label = groups_.label[group_kind(t.group)][at];
      const int peer = fold_.of[static_cast<std::size_t>(label)];
      const bool sends = point.kind == ActionKind::send;
      return {kind, {}, {}, sends ? self : peer, sends ? peer : self, t.tag};
    }
    const std::size_t g =
        kind == ChannelKind::collective ? group_kind(t.group) : std::size_t{kServerGroup};
    const int label = groups_.label[g][at];
    PLANNER_CHECK(label != Groups::kNone, "a transfer outside its group");
    const int lowest = lowest_[g][static_cast<std::size_t>(label)];
    if (kind == ChannelKind::collective) return {kind, t.group, point.stream, lowest, 0, 0};
    return {kind, {}, {}, lowest, program::turn_of(p_, t, point.kind, rank), 0};
  }

 private:
  // By label: the lowest fold among the group's members.
  std::vector<int> lowest_folds(std::size_t g) const {
    const std::vector<int>& labels = groups_.label[g];
    std::vector<int> lowest(labels.size(), static_cast<int>(labels.size()));
    for (std::size_t rank = 0; rank < labels.size(); ++rank) {
      if (labels[rank] == Groups::kNone) continue;
      int& low = lowest[static_cast<std::size_t>(labels[rank])];
      low = std::min(low, fold_.of[rank]);
    }
    return lowest;
  }

  const program::Program& p_;
  const Groups& groups_;
  const Fold& fold_;
  std::array<std::vector<int>, kGroupKinds> lowest_;
};

}  // namespace

std::vector<std::uint32_t> straggler_marks(int ranks, const std::vector<Straggler>& stragglers) {
  if (stragglers.empty()) return {};
  std::vector<std::uint32_t> marks(static_cast<std::size_t>(ranks), 0);
  std::map<std::pair<double, double>, std::uint32_t> known;
  for (const Straggler& s : stragglers) {
    PLANNER_CHECK(s.rank >= 0 && s.rank < ranks && s.slowdown > 0 && s.link_share > 0);
    const auto fresh = static_cast<std::uint32_t>(known.size() + 1);
    marks[static_cast<std::size_t>(s.rank)] =
        known.try_emplace({s.slowdown, s.link_share}, fresh).first->second;
  }
  return marks;
}

// What tells ranks apart by either.
static std::vector<std::uint32_t> both_marks(std::vector<std::uint32_t> marks,
                                             const std::vector<std::uint32_t>& kinds) {
  if (marks.empty()) return kinds;
  const std::uint32_t most = kinds.empty() ? 0 : *std::ranges::max_element(kinds);
  for (std::size_t rank = 0; rank < kinds.size(); ++rank)
    marks[rank] = marks[rank] * (most + 1) + kinds[rank];
  return marks;
}

Scene::Scene(const program::Program& program, const cost::Machine& machine, SceneOptions options)
    : program_(&program), jitter_(options.jitter), seed_(options.seed) {
  PLANNER_CHECK(options.jitter >= 0);
  varies_ = jitter_ > 0 || !options.stragglers.empty();
  const Groups groups = groups_of(program, machine.gpus_per_node);
  const int ranks = program.mesh.ranks();
  const std::vector<std::uint32_t> marks = both_marks(
      straggler_marks(ranks, options.stragglers), cost::kind_marks(machine, ranks));
  // Workers whose turns come one after another are not alike.
  const bool apart = options.unfold || jitter_ > 0 || program::takes_turns(program);
  PLANNER_CHECK(options.fold == nullptr || !apart, "folds of ranks that are not alike");
  fold_ = options.fold != nullptr ? *options.fold : fold_ranks(program, groups, marks, apart);
  add_actors(groups, machine, options);
  seat_actors(groups, options.fold != nullptr);
  weaken_links(machine, options.stragglers);
}

void Scene::add_actors(const Groups& groups, const cost::Machine& machine,
                       const SceneOptions& options) {
  const Fold places =
      fold_by_place(*program_, groups, cost::kind_marks(machine, program_->mesh.ranks()));
  timetables_.reserve(places.first.size());
  for (const int rank : places.first) {
    const auto& k = program_->classes[static_cast<std::size_t>(program_->class_of(rank))];
    timetables_.emplace_back(*program_, k, machine, rank, TimetableOptions{options.parts});
  }
  for (int f = 0; f < fold_.count(); ++f) {
    Actor actor;
    actor.rank = fold_.first[static_cast<std::size_t>(f)];
    actor.ranks = fold_.ranks[static_cast<std::size_t>(f)];
    const int place = places.of[static_cast<std::size_t>(actor.rank)];
    actor.timetable = static_cast<std::uint32_t>(place);
    for (const Straggler& s : options.stragglers)
      if (s.rank == actor.rank) actor.slowdown = s.slowdown;
    actors_.push_back(actor);
  }
}

std::int64_t Scene::varied(const Actor& actor, const Operation& op, std::uint64_t index) const {
  if (op.work == Work::transfer && op.point != program::kNone && !wire_.empty()) {
    const double wire = wire_[actor.first_seat + op.point];
    if (wire == 1) return op.duration;
    const double on_wire = static_cast<double>(op.duration - op.beside_wire);
    return op.beside_wire + static_cast<std::int64_t>(on_wire * wire + 0.5);
  }
  if (op.work != Work::compute && op.work != Work::optimizer) return op.duration;
  double factor = actor.slowdown;
  if (jitter_ > 0) {
    const core::Random random(seed_, static_cast<std::uint64_t>(actor.rank));
    factor *= std::clamp(1 + jitter_ * random.normal(index), 0.5, 2.0);
  }
  return static_cast<std::int64_t>(static_cast<double>(op.duration) * factor + 0.5);
}

int Scene::draining_steps() const {
  return static_cast<int>(program_->classes.front().schedule.draining_steps());
}

int Scene::steps_of(int asked) const {
  const int draining = draining_steps();
  return draining == 0 ? asked : std::max(asked, 2 * draining + 2);
}

double Scene::operations() const {
  std::vector<double> of_table;
  for (const Timetable& table : timetables_) of_table.push_back(table.operations_of_step());
  double all = 0;
  for (const Actor& actor : actors_) all += of_table[actor.timetable];
  return all;
}

void Scene::seat_actors(const Groups& groups, bool flows) {
  const Seating seating(*program_, groups, fold_);
  std::map<ChannelKey, std::uint32_t> known;
  for (std::uint32_t a = 0; a < actors_.size(); ++a) {
    Actor& actor = actors_[a];
    actor.first_seat = static_cast<std::uint32_t>(seats_.size());
    const Timetable& table = timetable(actor);
    std::map<std::pair<std::uint32_t, bool>, std::uint32_t> counters;
    for (const MeetingPoint& point : table.points()) {
      const ChannelKey key = seating.key(table.rank_class(), actor.rank, point);
      const auto fresh = static_cast<std::uint32_t>(channels_.size());
      Seat seat{.channel = known.try_emplace(key, fresh).first->second};
      if (seat.channel == fresh) channels_.push_back({.kind = key.kind});
      const bool buffered = is_buffered(key.kind);
      seat.posts = point.kind == ActionKind::push || point.kind == ActionKind::serve_pull;
      seat.times = point.kind != ActionKind::receive;
      if (buffered)
        seat.turn_counter =
            counters.try_emplace({seat.channel, seat.posts}, turn_counters_ + counters.size())
                .first->second;
      Channel& channel = channels_[seat.channel];
      if ((!buffered || seat.posts) && channel.last_actor != a) {
        ++channel.parties;
        channel.last_actor = a;
      }
      seats_.push_back(seat);
    }
    turn_counters_ += static_cast<std::uint32_t>(counters.size());
  }
  // Where messages share links, an actor alone still sends to those that it stands for.
  for (Seat& seat : seats_) {
    const Channel& channel = channels_[seat.channel];
    if (channel.kind == ChannelKind::collective && channel.parties == 1 && !flows)
      seat.channel = kAbsent;
  }
}

// The weakest link of a group is in the way of all of it.
void Scene::weaken_links(const cost::Machine& machine, const std::vector<Straggler>& stragglers) {
  const int ranks = program_->mesh.ranks();
  std::vector<double> of_rank(static_cast<std::size_t>(ranks), 1);
  bool any = false;
  for (const Straggler& s : stragglers) {
    of_rank[static_cast<std::size_t>(s.rank)] = s.link_share;
    any = any || s.link_share < 1;
  }
  if (!any) return;
  const bool one_node = ranks <= machine.gpus_per_node;
  wire_.resize(seats_.size(), 1);
  for (const Actor& actor : actors_) {
    const Timetable& table = timetable(actor);
    for (std::size_t p = 0; p < table.points().size(); ++p) {
      const Group group = table.rank_class().transfers[table.points()[p].transfer].group;
      if (program_->mesh.is_server(actor.rank)) continue;
      if (!one_node &&
          cost::place_of(program_->mesh, group, actor.rank, machine.gpus_per_node).nodes < 2)
        continue;
      for (const int member : program_->mesh.members(group, actor.rank))
        wire_[actor.first_seat + p] = std::max(wire_[actor.first_seat + p],
                                               1 / of_rank[static_cast<std::size_t>(member)]);
    }
  }
}

}  // namespace engine
