#include "sim/chakra/write.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include <fmt/format.h>

#include "core/call.hpp"
#include "core/check.hpp"
#include "core/json.hpp"
#include "core/protobuf.hpp"
#include "core/repeats.hpp"
#include "sim/chakra/schema.hpp"
#include "sim/program/traffic.hpp"
#include "sim/program/turns.hpp"

namespace engine {
namespace {

using namespace chakra;
using core::ProtoMessage;
using program::ActionKind;
using program::Collective;

constexpr std::int64_t kPicosecondsPerMicrosecond = 1'000'000;
// Tags of messages with parameter servers, beyond those that a Program has.
constexpr std::uint64_t kPushTag = 1 << 16, kPullTag = kPushTag + 1,
                        kRingTag = kPushTag + 2;

void attribute(ProtoMessage& node, std::string_view name, int field, std::uint64_t value) {
  ProtoMessage a;
  a.text(kAttributeName, name);
  a.number(field, value);
  node.message(kAttribute, a);
}
void attribute(ProtoMessage& node, std::string_view name, std::int64_t value) {
  attribute(node, name, kInt64, static_cast<std::uint64_t>(value));
}
void attribute(ProtoMessage& node, std::string_view name, std::string_view value) {
  ProtoMessage a;
  a.text(kAttributeName, name);
  a.text(kString, value);
  node.message(kAttribute, a);
}

CommType comm_type(Collective c) {
  switch (c) {
    case Collective::all_reduce: return kAllReduce;
    case Collective::all_gather: return kAllGather;
    case Collective::reduce_scatter: return kReduceScatter;
    case Collective::broadcast: return kBroadcast;
    case Collective::exchange: return kAllToAll;
    default: PLANNER_CHECK(false, "a collective without a type in Chakra"); return kBarrier;
  }
}

// What a node says beside its type, dependencies and duration.
struct Describe {
  NodeType type = kComp;
  std::string name;
  std::function<void(ProtoMessage&)> attributes{};
  std::string_view stream{};           // another than its own
};

// The file of one rank.
class RankWriter {
 public:
  RankWriter(const Scene& scene, int rank, ChakraGroups& groups)
      : scene_(scene), mesh_(scene.program().mesh), rank_(rank),
        actor_(scene.actors()[static_cast<std::size_t>(
            scene.fold().of[static_cast<std::size_t>(rank)])]),
        table_(scene.timetable(actor_)), class_(table_.rank_class()), groups_(groups),
        signallers_(table_.instances()) {}

  std::string run() {
    ProtoMessage metadata;
    metadata.text(kVersion, kVersionText);
    metadata.append_delimited(bytes_);
    for (OperationCursor at(table_, 1); !at.at_join(); at.advance())
      write(at.operation(), at.micro_batch());
    return std::move(bytes_);
  }

 private:
  using Ids = std::vector<std::uint64_t>;

  // An operation, as one node, as several one after another (copies) or beside one another
  // (messages with servers).
  void write(const Operation& op, std::int64_t micro_batch) {
    const std::int64_t duration = scene_.duration(actor_, op, issued_++);
    Ids& tail = tails_[static_cast<std::size_t>(op.stream)];
    Ids events;
    for (std::uint32_t w = op.first_wait; w < op.first_wait + op.wait_count; ++w)
      for (const std::uint64_t by : signallers_[table_.wait(w).at(micro_batch)])
        if (std::ranges::find(events, by) == events.end()) events.push_back(by);
    const program::Action* transfer = transfer_of(op);
    if (op.point != program::kNone && transfer->kind >= ActionKind::push)
      tail = write_served(op, *transfer, duration, tail, events);
    else if (op.point != program::kNone && goes_round(*transfer))
      tail = write_round(op, *transfer, duration, tail, events);
    else if (op.point != program::kNone)
      tail = {write_node(op.stream, duration, tail, events, transfer_node(op, *transfer))};
    else
      tail = write_local(op, micro_batch, duration, tail, events);
    if (op.signal != kAbsent) signallers_[table_.signal(op.signal).at(micro_batch)] = tail;
  }

  const program::Action* transfer_of(const Operation& op) const {
    for (std::uint32_t i = op.first_part; i < op.last_part; ++i) {
      const program::Action& a = class_.actions[table_.part(i).action];
      if (cost::ActionCost::is_transfer(a.kind)) return &a;
    }
    return nullptr;
  }

  std::uint64_t write_node(program::Stream stream, std::int64_t duration, const Ids& tail,
                           const Ids& events, const Describe& what) {
    const std::uint64_t id = next_++;
    std::int64_t& total = totals_[static_cast<std::size_t>(stream)];
    const std::int64_t before = total / kPicosecondsPerMicrosecond;
    total += duration;
    ProtoMessage n;
    n.number_unless_zero(kId, id);
    n.text(kName, what.name);
    n.number_unless_zero(kType, what.type);
    n.numbers(kControlDeps, tail);
    n.numbers(kDataDeps, events);
    n.number_unless_zero(kDurationMicros, static_cast<std::uint64_t>(
                                              total / kPicosecondsPerMicrosecond - before));
    attribute(n, "is_cpu_op", kBool, 0);
    attribute(n, kPicosecondsName, kUint64, static_cast<std::uint64_t>(duration));
    attribute(n, kStreamName, what.stream.empty() ? program::name(stream) : what.stream);
    if (what.attributes) what.attributes(n);
    n.append_delimited(bytes_);
    return id;
  }

  // Computation, or copies between the rank and its host, each by itself.
  Ids write_local(const Operation& op, std::int64_t micro_batch, std::int64_t duration, Ids tail,
                  Ids events) {
    std::int64_t left = duration;
    for (std::uint32_t i = op.first_part; i < op.last_part; ++i) {
      const Part& part = table_.part(i);
      const program::Action& a = class_.actions[part.action];
      if (a.kind != ActionKind::copy) continue;
      tail = {write_node(op.stream, part.duration, tail, events, copy_node(a, part.call))};
      events.clear();
      left -= part.duration;
    }
    if (left == duration || left > 0)
      tail = {write_node(op.stream, left, tail, events, {kComp, name_of(op, micro_batch)})};
    return tail;
  }

  std::string name_of(const Operation& op, std::int64_t micro_batch) const {
    if (op.first_part == op.last_part) return "wait";
    const program::Call& call = table_.part(op.first_part).call;
    return fmt::format("{} layer {} micro_batch {}", class_.blocks[call.block].name, call.layer,
                       micro_batch);
  }

  Describe copy_node(const program::Action& a, const program::Call& call) const {
    const program::Transfer& t = class_.transfers[a.op];
    const program::View& from = class_.views[a.first_arg];
    const bool loads = class_.buffers[from.buffer].host;
    const std::int64_t bytes =
        core::bytes_of(program::transfer_elements(class_, a, call), t.wire_type).value();
    return {loads ? kMemLoad : kMemStore, fmt::format("copy {}", program::name(t.what)),
            [=](ProtoMessage& n) {
              attribute(n, "tensor_size", bytes);
              attribute(n, kWhatName, program::name(t.what));
            }};
  }

  Describe transfer_node(const Operation& op, const program::Action& a) {
    const program::Transfer& t = class_.transfers[a.op];
    const std::vector<int> members = mesh_.members(t.group, rank_);
    const auto size = static_cast<int>(members.size());
    std::int64_t bytes = program::payload_bytes(t.collective, t.algorithm, size, 1,
                                                op.transfer_elements, t.wire_type)
                             .value();
    if (a.kind != ActionKind::collective) {
      const bool sends = a.kind == ActionKind::send;
      return message_node(sends, members.back(), t.tag, bytes, program::name(t.what));
    }
    if (t.collective == Collective::all_gather) bytes /= size;
    return {kCollective,
            fmt::format("{} {}", program::name(t.collective), program::name(t.what)),
            [=, group = group_of(members)](ProtoMessage& n) {
              attribute(n, "comm_type", comm_type(t.collective));
              attribute(n, "comm_size", bytes);
              attribute(n, "pg_name", std::to_string(group));
              if (t.collective != Collective::exchange)  // Chakra has one all-to-all
                attribute(n, kAlgorithmName, program::name(t.algorithm));
              attribute(n, kWhatName, program::name(t.what));
            }};
  }

  Describe message_node(bool sends, int peer, std::uint64_t tag, std::int64_t bytes,
                        std::string_view what) const {
    return {sends ? kSend : kReceive, fmt::format("{} {}", sends ? "send" : "receive", what),
            [=, rank = rank_](ProtoMessage& n) {
              attribute(n, "comm_src", std::int64_t{sends ? rank : peer});
              attribute(n, "comm_dst", std::int64_t{sends ? peer : rank});
              attribute(n, "comm_tag", static_cast<std::int64_t>(tag));
              attribute(n, "comm_size", bytes);
              attribute(n, kWhatName, what);
            }};
  }

  bool goes_round(const program::Action& a) const {
    return a.kind == ActionKind::collective &&
           class_.transfers[a.op].collective == Collective::send;
  }

  // To the next rank of a ring, and from the one before, at once.
  Ids write_round(const Operation& op, const program::Action& a, std::int64_t duration,
                  const Ids& tail, const Ids& events) {
    const program::Transfer& t = class_.transfers[a.op];
    const std::vector<int> members = mesh_.members(t.group, rank_);
    const auto size = members.size();
    const auto own =
        static_cast<std::size_t>(std::ranges::find(members, rank_) - members.begin());
    const auto bytes = core::bytes_of(op.transfer_elements, t.wire_type).value();
    Ids ids;
    for (const bool sends : {true, false}) {
      const int peer = members[(own + (sends ? 1 : size - 1)) % size];
      Describe node = message_node(sends, peer, kRingTag, bytes, program::name(t.what));
      if (!sends) node.stream = "context_receive";  // a stream of messages has one at a time
      ids.push_back(write_node(op.stream, duration, tail, events, node));
      totals_[static_cast<std::size_t>(op.stream)] -= duration;
    }
    totals_[static_cast<std::size_t>(op.stream)] += duration;
    return ids;
  }

  // A message with every other server (of a worker) or every other worker (of a server).
  Ids write_served(const Operation& op, const program::Action& a, std::int64_t duration,
                   const Ids& tail, const Ids& events) {
    const program::Transfer& t = class_.transfers[a.op];
    const bool of_worker = a.kind == ActionKind::push || a.kind == ActionKind::pull;
    const bool sends = a.kind == ActionKind::push || a.kind == ActionKind::serve_pull;
    const bool pushes = a.kind == ActionKind::push || a.kind == ActionKind::serve_push;
    const auto bytes = core::bytes_of(op.transfer_elements, t.wire_type).value();
    const std::int64_t workers = mesh_.data;
    const bool turns = program::takes_turns(t);
    const std::int64_t incast =
        turns ? 1 : workers - (scene_.program().servers_colocated ? 1 : 0);
    const std::int64_t own = scene_.program().servers - (turns && class_.is_server ? 1 : 0);
    Ids ids;
    for (const int peer : of_worker ? servers() : workers_of_server(t)) {
      if (peer == rank_ && !turns) continue;  // in turns it tells two streams of one rank apart
      Describe node = message_node(sends, peer, pushes ? kPushTag : kPullTag, bytes,
                                   program::name(t.what));
      node.attributes = [&, inner = node.attributes](ProtoMessage& n) {
        inner(n);
        attribute(n, "incast", of_worker ? std::max(incast, own) : incast);
        attribute(n, "beside_picoseconds", op.beside_wire);
      };
      // Beside one another: the stream's sum takes the time once.
      ids.push_back(write_node(op.stream, duration, tail, events, node));
      totals_[static_cast<std::size_t>(op.stream)] -= duration;
    }
    totals_[static_cast<std::size_t>(op.stream)] += duration;
    if (ids.empty())
      ids.push_back(write_node(op.stream, duration, tail, events,
                               {kComp, std::string(program::name(a.kind))}));
    return ids;
  }

  std::vector<int> servers() const {
    const program::Program& p = scene_.program();
    std::vector<int> ranks(static_cast<std::size_t>(p.servers));
    std::iota(ranks.begin(), ranks.end(), mesh_.workers());
    if (!p.servers_colocated) return ranks;
    std::vector<int> data = mesh_.members(program::Group::data, rank_);
    data.resize(ranks.size());
    return data;
  }
  // All, or the one whose turn it is.
  std::vector<int> workers_of_server(const program::Transfer& t) const {
    const int worker = mesh_.is_server(rank_) ? 0 : rank_;
    std::vector<int> all = mesh_.members(program::Group::data, worker);
    if (program::takes_turns(t)) all = {all[static_cast<std::size_t>(t.tag - 1)]};
    return all;
  }

  int group_of(std::vector<int> members) {
    std::ranges::sort(members);
    if (static_cast<int>(members.size()) == mesh_.ranks())
      return groups_.try_emplace(std::move(members), 0).first->second;
    const int fresh = static_cast<int>(groups_.size()) + 1;
    return groups_.try_emplace(std::move(members), fresh).first->second;
  }

  const Scene& scene_;
  const program::Mesh& mesh_;
  const int rank_;
  const Actor& actor_;
  const Timetable& table_;
  const program::RankClass& class_;
  ChakraGroups& groups_;
  std::string bytes_;
  std::uint64_t next_ = 0, issued_ = 0;
  std::array<Ids, program::kStreams> tails_;           // the stream's last nodes
  std::array<std::int64_t, program::kStreams> totals_{};  // picoseconds
  std::vector<Ids> signallers_;                        // by instance
};

core::Problems problems_of(const Scene& scene, const std::vector<int>& ranks, double most_nodes) {
  const int all = scene.program().mesh.ranks();
  double nodes = 0;
  for (const int rank : ranks) {
    if (rank < 0 || rank >= all)
      return {{"--chakra-ranks", fmt::format("ranks below {}", all), std::to_string(rank), ""}};
    const int fold = scene.fold().of[static_cast<std::size_t>(rank)];
    nodes += scene.timetable(scene.actors()[static_cast<std::size_t>(fold)]).operations_of_step();
  }
  if (nodes <= most_nodes) return {};
  return {{"--chakra", fmt::format("at most {:.0f} nodes", most_nodes),
           fmt::format("{:.0f} of {} ranks", nodes, ranks.size()),
           "write some of them: --chakra-ranks 0,1"}};
}

}  // namespace

std::string chakra_groups_json(const ChakraGroups& groups) {
  std::map<int, const std::vector<int>*> by_name;
  for (const auto& [ranks, name] : groups) by_name[name] = &ranks;
  std::vector<core::Json::Member> members;
  for (const auto& [name, ranks] : by_name)
    members.push_back({std::to_string(name), core::Json::array_of(*ranks)});
  return core::dump(core::Json::from_members(std::move(members))) + '\n';
}

core::Result<ChakraGroups> write_chakra(const Scene& scene, const ChakraOptions& options,
                                        const ChakraSink& sink) {
  std::vector<int> ranks = options.ranks;
  if (ranks.empty()) {
    ranks.resize(static_cast<std::size_t>(scene.program().mesh.ranks()));
    std::iota(ranks.begin(), ranks.end(), 0);
  }
  core::sort_unique(ranks);
  core::Problems problems = problems_of(scene, ranks, options.most_nodes);
  if (!problems.empty()) return problems;
  ChakraGroups groups;
  for (const int rank : ranks) {
    core::stop_point();
    const core::Status done = sink(rank, RankWriter(scene, rank, groups).run());
    if (!done.ok()) return done.problems();
  }
  // ASTRA-sim knows group 0 without a list, and aborts where it is listed. It is listed where some
  // ranks are not written, so that a reader does not take those that are for all.
  if (static_cast<int>(ranks.size()) == scene.program().mesh.ranks())
    std::erase_if(groups, [](const auto& group) { return group.second == 0; });
  return groups;
}

}  // namespace engine
