#pragma once
// Exchanges: transfers of a played step as messages on wires (fidelity `flows`), where the timed
// fidelity takes the one duration of sim/cost. Rings and messages inside a node take that duration
// where nothing shares their wires: what it has beyond latency and bytes (protocols, GEMMs beside
// them, waiting for the last of the group) comes before each of their steps. Holds who takes part;
// a node is the engine's name of an operation under way. Not thread-safe.

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "sim/engine/scene.hpp"
#include "sim/engine/wires.hpp"

namespace engine {

struct FlowOptions {
  Sharing sharing = Sharing::shared;
  std::vector<WeakLink> weak{};
};

struct Party {
  int rank = 0;
  std::uint32_t node = 0;
};

class Exchanges {
 public:
  // REQUIRES: the scene is unfolded.
  Exchanges(const Scene& scene, const cost::Machine& machine, const FlowOptions& options);

  // A collective or message of these parties, all of whom have come. op: one of theirs; of a
  // message, its sender's.
  void start(const Timetable& table, const Operation& op, std::span<const Party> parties,
             std::int64_t now);
  // A push of a worker to every server, or a server's reply to every worker, but for itself; false:
  // there is nobody else, and nothing to wait for.
  bool post(const Timetable& table, const Operation& op, Party from, std::int64_t now);

  std::int64_t next() const { return wires_.next(); }
  // Nodes whose transfers have ended by now.
  void advance(std::int64_t now, std::vector<std::uint32_t>& nodes);

  const Wires& wires() const { return wires_; }

 private:
  using PlanKey = std::tuple<int, int, int, std::int64_t, int>;
  const MessagePlan& collective_plan(const program::Transfer& t, int group, std::int64_t elements);
  std::int64_t beside_wires(const program::Transfer& t, const MessagePlan& plan,
                            const std::vector<int>& members, std::int64_t duration) const;
  const MessagePlan& fan_out_plan(int others, std::int64_t bytes);
  std::uint32_t take_token(std::vector<std::uint32_t> nodes);

  const Scene& scene_;
  Wires wires_;
  std::map<PlanKey, MessagePlan> plans_;
  std::map<std::pair<int, std::int64_t>, MessagePlan> fan_outs_;
  std::vector<std::vector<std::uint32_t>> tokens_;  // nodes by member; kAbsent: nobody waits
  std::vector<std::size_t> open_;                   // members of a token that are not done
  std::vector<std::uint32_t> free_;
  std::vector<Wires::Done> done_;
};

}  // namespace engine
