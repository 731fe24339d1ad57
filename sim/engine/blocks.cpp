#include "sim/engine/blocks.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>

#include "core/check.hpp"
#include "core/repeats.hpp"

namespace engine {
namespace {

// A cut is worth its rounds from so many operations on: about a tenth of a second.
constexpr double kWorthCutting = 1e6;
// Actors that meet are united up to this share of all, so that threads have blocks to choose from.
constexpr std::uint32_t kFewestBlocks = 4;
// More than most groups that meet in every layer have.
constexpr std::uint32_t kSmallBlock = 32;
// Actors whose state stays in a core's cache while their block is played.
constexpr std::uint32_t kActorsInCache = 256;

// What decides whether the parties of a channel share a block.
struct Contact {
  double meetings = 0;                 // of a step
  std::int64_t shortest = std::numeric_limits<std::int64_t>::max();
  std::vector<std::uint32_t> actors;
  bool whole = false;                  // its parties must share a block
};

// Sets of actors, united step by step.
class Unions {
 public:
  explicit Unions(std::size_t count) : parent_(count), size_(count, 1) {
    std::iota(parent_.begin(), parent_.end(), 0U);
  }

  std::uint32_t root(std::uint32_t a) {
    while (parent_[a] != a) a = parent_[a] = parent_[parent_[a]];
    return a;
  }
  std::uint32_t size(std::uint32_t root) const { return size_[root]; }

  void unite(const std::vector<std::uint32_t>& actors, std::uint32_t most) {
    roots_.clear();
    for (const std::uint32_t a : actors) roots_.push_back(root(a));
    core::sort_unique(roots_);
    std::uint64_t all = 0;
    for (const std::uint32_t r : roots_) all += size_[r];
    if (all > most) return;
    for (const std::uint32_t r : roots_) parent_[r] = roots_.front();
    size_[roots_.front()] = static_cast<std::uint32_t>(all);
  }

 private:
  std::vector<std::uint32_t> parent_, size_, roots_;
};

std::vector<Contact> contacts_of(const Scene& scene) {
  std::vector<Contact> contacts(scene.channels().size());
  std::vector<std::vector<PointUse>> of_table;
  for (const Timetable& table : scene.timetables()) of_table.push_back(table.point_uses());
  for (std::uint32_t a = 0; a < scene.actors().size(); ++a) {
    const Actor& actor = scene.actors()[a];
    const std::vector<PointUse>& uses = of_table[actor.timetable];
    for (std::size_t p = 0; p < uses.size(); ++p) {
      const Seat& seat = scene.seats()[actor.first_seat + p];
      if (seat.channel == kAbsent) continue;
      Contact& c = contacts[seat.channel];
      c.whole = scene.channels()[seat.channel].kind != ChannelKind::collective;
      c.meetings = std::max(c.meetings, uses[p].meetings);
      if (seat.times) c.shortest = std::min(c.shortest, uses[p].shortest);
      if (c.actors.empty() || c.actors.back() != a) c.actors.push_back(a);
    }
  }
  return contacts;
}

// By actor, its set of those that share a block.
std::vector<std::uint32_t> united(const Scene& scene, const std::vector<Contact>& contacts,
                                  std::uint32_t most) {
  const std::size_t count = scene.actors().size();
  Unions unions(count);
  std::vector<std::uint32_t> order(contacts.size());
  std::iota(order.begin(), order.end(), 0U);
  // A channel of many parties fills a block by itself, for as many meetings.
  std::ranges::stable_sort(order, std::ranges::greater{}, [&](std::uint32_t c) {
    return contacts[c].meetings / static_cast<double>(contacts[c].actors.size());
  });
  for (const Contact& c : contacts)
    if (c.whole || c.shortest <= 0) unions.unite(c.actors, kAbsent);
  for (const std::uint32_t c : order) unions.unite(contacts[c].actors, most);
  std::vector<std::uint32_t> root_of(count);
  for (std::uint32_t a = 0; a < count; ++a) root_of[a] = unions.root(a);
  return root_of;
}

// By actor, its block: sets in the order of their first actors, small ones packed together.
std::vector<std::uint32_t> packed(const std::vector<std::uint32_t>& root_of, std::uint32_t pack) {
  std::vector<std::uint32_t> size(root_of.size(), 0), block_of(root_of.size(), kAbsent);
  for (const std::uint32_t root : root_of) ++size[root];
  std::vector<std::uint32_t> block_of_root(root_of.size(), kAbsent);
  std::uint32_t blocks = 0, filled = 0;
  for (std::size_t a = 0; a < root_of.size(); ++a) {
    std::uint32_t& block = block_of_root[root_of[a]];
    if (block == kAbsent) {
      if (filled > 0 && filled + size[root_of[a]] > pack) ++blocks, filled = 0;
      block = blocks;
      filled += size[root_of[a]];
    }
    block_of[a] = block;
  }
  return block_of;
}

// Borders are the channels that several blocks have parties at. By channel, which border it is.
std::vector<std::uint32_t> borders_between(const std::vector<std::uint32_t>& block_of,
                                           const std::vector<Contact>& contacts,
                                           std::vector<Border>& borders) {
  std::vector<std::uint32_t> border_of(contacts.size(), kAbsent);
  std::vector<std::uint32_t> met;      // blocks
  for (std::size_t c = 0; c < contacts.size(); ++c) {
    met.clear();
    for (const std::uint32_t a : contacts[c].actors) met.push_back(block_of[a]);
    core::sort_unique(met);
    const auto blocks = static_cast<std::uint32_t>(met.size());
    if (blocks < 2) continue;
    PLANNER_CHECK(!contacts[c].whole && contacts[c].shortest > 0);
    border_of[c] = static_cast<std::uint32_t>(borders.size());
    borders.push_back({blocks, contacts[c].shortest});
  }
  return border_of;
}

}  // namespace

Blocks::Blocks(const Scene& scene, std::uint32_t most_actors) : seats_(scene.seats()) {
  std::vector<std::uint32_t> block_of(scene.actors().size(), 0);
  std::vector<std::uint32_t> border_of(scene.channels().size(), kAbsent);
  if (block_of.size() > most_actors) {
    const std::vector<Contact> contacts = contacts_of(scene);
    block_of = packed(united(scene, contacts, most_actors), std::min(most_actors, kActorsInCache));
    border_of = borders_between(block_of, contacts, borders_);
  }
  place_actors(scene, block_of, border_of);
}

void Blocks::place_actors(const Scene& scene, const std::vector<std::uint32_t>& block_of,
                          const std::vector<std::uint32_t>& border_of) {
  blocks_.resize(std::ranges::max(block_of) + std::size_t{1});
  for (std::uint32_t a = 0; a < block_of.size(); ++a) blocks_[block_of[a]].actors.push_back(a);
  struct Latest {                      // place at a channel; blocks come one after another
    std::uint32_t block = kAbsent, place = 0, actor = kAbsent;
  };
  std::vector<Latest> latest(scene.channels().size());
  for (std::uint32_t b = 0; b < blocks_.size(); ++b) {
    std::vector<Place>& places = blocks_[b].places;
    for (const std::uint32_t a : blocks_[b].actors) {
      const Actor& actor = scene.actors()[a];
      const std::size_t points = scene.timetable(actor).points().size();
      for (Seat& seat : std::span(seats_).subspan(actor.first_seat, points)) {
        if (seat.channel == kAbsent) continue;
        Latest& last = latest[seat.channel];
        const ChannelKind kind = scene.channels()[seat.channel].kind;
        if (last.block != b) {
          last = {b, static_cast<std::uint32_t>(places.size()), kAbsent};
          places.push_back({kind, 0, border_of[seat.channel]});
        }
        seat.channel = last.place;
        if ((is_buffered(kind) && !seat.posts) || last.actor == a) continue;
        ++places[last.place].parties;
        last.actor = a;
      }
    }
  }
}

Blocks blocks_for(const Scene& scene, int steps, std::uint32_t most_actors) {
  if (most_actors > 0) return {scene, most_actors};
  if (scene.operations() * steps < kWorthCutting) return Blocks(scene);
  const auto actors = static_cast<std::uint32_t>(scene.actors().size());
  return {scene, std::max(kSmallBlock, actors / kFewestBlocks)};
}

}  // namespace engine
