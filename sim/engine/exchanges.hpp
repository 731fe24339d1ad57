#pragma once
// Exchanges: transfers of a played step as messages on wires (fidelity `flows`), where the timed
// fidelity takes the one duration of sim/cost. Rings and single messages take that duration where
// every group of their kind is under way and nothing else shares their wires. What it has beyond
// latency and bytes (protocols, GEMMs beside them, waiting for the last of the group) comes before
// each of their rounds; where it has less, a round's latency is that much shorter. An all-reduce
// that NCCL sums through trees moves fewer bytes between nodes than the ring does that is played
// for it: its messages then take that much less of the links between nodes.
//
// Holds who takes part; a node is the engine's name of an operation under way. Not thread-safe.

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "sim/cost/link.hpp"
#include "sim/engine/scene.hpp"
#include "sim/engine/wires.hpp"

namespace engine {

struct FlowOptions {
  Sharing sharing = Sharing::shared;
  std::vector<WeakLink> weak{};
  // What the messages move over; null: made of the machine and the weak links.
  const Topology* topology = nullptr;
  // Where the scene is folded: what it was folded by, made of that topology.
  const Symmetry* symmetry = nullptr;
  // To write while the steps run, from their start on. REQUIRES: the symmetry was made with them,
  // links are shared, and the topology has the storage or the network that they cross.
  const Writes* writes = nullptr;
};

struct Party {
  int rank = 0;
  std::uint32_t node = 0;
};

class Exchanges {
 public:
  // REQUIRES: the scene is unfolded, or folded by options.symmetry.
  Exchanges(const Scene& scene, const cost::Machine& machine, const FlowOptions& options);

  // A collective or message of these parties, all of whom have come. op: one of theirs; of a
  // message, its sender's, who is the first party.
  void start(const Timetable& table, const Operation& op, std::span<const Party> parties,
             std::int64_t now);
  // A push of a worker to every server, or a server's reply to every worker, but for itself; false:
  // there is nobody else, and nothing to wait for.
  bool post(const Timetable& table, const Operation& op, Party from, std::int64_t now);

  // One of so many ranks has done a step; each does its steps in order. REQUIRES: now not before
  // what advance() was last told, nor after next().
  void join(int step, std::int64_t now, std::size_t ranks);
  // Where something is written: for each step that all ranks have done, what had arrived by then.
  const std::vector<Written>& log() const { return log_; }
  // When the last of it had arrived; -1: some is on its way.
  std::int64_t written_at() const { return unwritten_ == 0 ? written_at_ : -1; }

  std::int64_t next() const { return wires_.next(); }
  // Nodes whose transfers have ended by now.
  void advance(std::int64_t now, std::vector<std::uint32_t>& nodes);

  const Wires& wires() const { return wires_; }

 private:
  // A group of ranks in the way that one algorithm sees it.
  struct Troupe {
    int size = 0;                      // of the whole group
    FoldedGroup folded;
    std::vector<Way> ways;             // by message of the folded plan
    Cast cast;
    int slowest_from = 0, slowest_to = 0;  // ranks of the slowest message of a ring
    cost::Place place;
    double share = 1;                  // of a node's network, that is this group's
  };
  using TroupeKey = std::tuple<int, int, int, int>;
  using PlanKey = std::tuple<int, int, int, std::int64_t, const Troupe*>;

  const Troupe& troupe_of(const program::Transfer& t, bool message,
                          std::span<const Party> parties);
  Troupe make_troupe(const program::Transfer& t, std::vector<int> ranks);
  std::vector<std::vector<int>> alike_groups(const program::Transfer& t,
                                             std::vector<int> ranks) const;
  const MessagePlan& collective_plan(const program::Transfer& t, const Troupe& troupe,
                                     std::int64_t elements);
  double network_part(const program::Transfer& t, const Troupe& troupe, std::int64_t elements,
                      std::int64_t ring_wires) const;
  const Cast& thin_cast(const Troupe& troupe, double part);
  const MessagePlan& fan_out_plan(int others, std::int64_t bytes);
  std::uint32_t take_token(std::vector<std::uint32_t> nodes);
  void begin_writes(const Writes& writes);
  double written(std::int64_t now) const;

  struct Write {                       // of one rank, and of all that it stands for
    MessagePlan plan;
    Cast cast;
    double bytes = 0, ranks = 0;
    bool arrived = false;
  };

  const Scene& scene_;
  const cost::Machine& machine_;
  std::optional<Topology> own_topology_;
  Wires wires_;
  std::map<TroupeKey, Troupe> troupes_;
  std::map<PlanKey, MessagePlan> plans_;
  std::map<std::pair<const Troupe*, double>, Cast> thin_casts_;
  std::map<std::pair<int, std::int64_t>, MessagePlan> fan_outs_;
  std::map<std::vector<int>, Cast> fan_out_casts_;
  std::vector<std::uint32_t> node_of_;              // by rank, while an exchange is started
  std::vector<std::vector<std::uint32_t>> tokens_;  // nodes by member; kAbsent: nobody waits
  std::vector<std::size_t> open_;                   // members of a token that are not done
  std::vector<std::uint32_t> free_;
  std::vector<Wires::Done> done_;
  std::vector<Write> writes_;          // their tokens are the first ones
  std::size_t unwritten_ = 0;
  std::int64_t written_at_ = -1;
  std::vector<std::size_t> joined_;    // by step: ranks
  std::vector<Written> log_;
};

}  // namespace engine
