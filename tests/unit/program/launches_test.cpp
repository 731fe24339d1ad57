// The order in which ranks launch what they communicate, over all groups and messages. A GPU may
// run these launches one after another, whatever streams they are on.
#include <map>
#include <set>
#include <string>

#include "core/random.hpp"
#include "core/result.hpp"
#include "sim/program/checker.hpp"
#include "tests/catch.hpp"
#include "tests/unit/program/program_builder.hpp"

using namespace program_test;
using core::DType;

namespace {

// What a stage of a pipeline launches. Each kind has a stream of its own, so that streams alone
// never wait for each other.
enum class Launch : std::uint8_t {
  data, tensor, embedding, send_on, take_on, send_back, take_back,
  join                                 // what follows waits until the last send_on is over
};

struct Place {
  ActionKind kind;
  Stream stream;
  Group group;
  std::uint16_t tag;
};

Place place_of(Launch launch) {
  switch (launch) {
    case Launch::data: return {ActionKind::collective, Stream::gradient, Group::data, 0};
    case Launch::tensor: return {ActionKind::collective, Stream::compute, Group::tensor, 0};
    case Launch::join: return {ActionKind::fence, Stream::context, Group::tensor, 0};
    case Launch::embedding:
      return {ActionKind::collective, Stream::parameter, Group::embedding, 0};
    case Launch::send_on: return {ActionKind::send, Stream::send, Group::next, 0};
    case Launch::take_on: return {ActionKind::receive, Stream::receive, Group::previous, 0};
    case Launch::send_back: return {ActionKind::send, Stream::send_back, Group::previous, 1};
    case Launch::take_back: return {ActionKind::receive, Stream::receive_back, Group::next, 1};
  }
  return {};
}

using Orders = std::vector<std::vector<Launch>>;  // of each stage

Program program_with(const Orders& orders, const Mesh& mesh) {
  std::vector<RankClass> classes;
  for (std::size_t s = 0; s < orders.size(); ++s) {
    Builder b("stage " + std::to_string(s), static_cast<int>(s));
    const auto sent = b.event("sent");
    for (const Launch launch : orders[s]) {
      const Place at = place_of(launch);
      if (launch == Launch::join) {
        b.k.end.push_back(b.call(b.block("join")));
        b.act(at.kind, {}, at.stream).wait(program_test::at(sent), true);
        continue;
      }
      const bool message = at.kind != ActionKind::collective;
      const auto x = b.buffer("x", Term::communication, {4}, 1, 1, true, DType::f32);
      const auto transfer =
          b.transfer({message ? Collective::send : Collective::all_reduce,
                      message ? Algorithm::direct : Algorithm::ring, Traffic::gradients, at.group,
                      ReduceOp::sum, DType::f32, at.tag});
      b.k.end.push_back(b.call(b.block("launch")));
      b.act(at.kind, {whole(x)}, at.stream, transfer);
      if (launch == Launch::send_on) b.signal(program_test::at(sent));
    }
    classes.push_back(b.k);
  }
  return program_of(std::move(classes), mesh);
}

// A second opinion, by stages: ranks of a stage do the same. An edge from each launch but a send to
// the next one of its stage and to the sends between them, from a send to its receive, and from a
// receive to what awaits the end of its send: the next send that way, and a join. The parties of a
// collective are one node.
bool has_circle(const Orders& orders) {
  std::map<std::string, std::set<std::string>> after;
  for (std::size_t s = 0; s < orders.size(); ++s) {
    std::map<Launch, int> count;
    std::string before;
    for (const Launch launch : orders[s]) {
      const std::string n = std::to_string(count[launch]++), own = std::to_string(s) + " ";
      const auto message = [&](const char* way, std::size_t from) {
        return way + std::to_string(from) + " " + n;
      };
      std::string node, source;
      std::set<std::string> awaited;
      const auto taken = [&](const char* way, std::size_t by, int index) {
        if (index >= 0)
          awaited.insert(std::to_string(by) + " takes " + way + std::to_string(s) + " " +
                         std::to_string(index));
      };
      switch (launch) {
        case Launch::data: node = own + "data " + n; break;
        case Launch::tensor: node = own + "tensor " + n; break;
        case Launch::embedding: node = "embedding " + n; break;
        case Launch::send_on:
          node = message("on ", s);
          taken("on ", s + 1, count[launch] - 2);
          break;
        case Launch::send_back:
          node = message("back ", s);
          taken("back ", s - 1, count[launch] - 2);
          break;
        case Launch::join:
          node = own + "join " + n;
          taken("on ", s + 1, count[Launch::send_on] - 1);
          break;
        case Launch::take_on: node = own + "takes " + (source = message("on ", s - 1)); break;
        case Launch::take_back: node = own + "takes " + (source = message("back ", s + 1)); break;
      }
      after[node];
      if (!source.empty()) after[source].insert(node);
      for (const std::string& before_it : awaited) after[before_it].insert(node);
      if (!before.empty()) after[before].insert(node);
      if (launch != Launch::send_on && launch != Launch::send_back) before = node;
    }
  }
  // Takes away what nothing comes before, until only circles are left.
  for (bool moved = true; moved;) {
    moved = false;
    std::set<std::string> awaited;
    for (const auto& [node, next] : after) awaited.insert(next.begin(), next.end());
    moved = std::erase_if(after, [&](const auto& x) { return !awaited.contains(x.first); }) > 0;
  }
  return !after.empty();
}

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed, 0x6c61756e) {}
  std::size_t below(std::size_t count) {
    return static_cast<std::size_t>(random_.below(drawn_++, count));
  }

 private:
  core::Random random_;
  std::uint64_t drawn_ = 0;
};

// Orders that follow one order of all meetings.
Orders orders_in_step(Draw& draw, std::size_t stages) {
  Orders orders(stages);
  for (std::size_t left = 1 + draw.below(14); left > 0; --left) {
    const std::size_t s = draw.below(stages);
    switch (draw.below(6)) {
      case 5: orders[s].push_back(Launch::join); break;
      case 0: orders[s].push_back(Launch::data); break;
      case 1: orders[s].push_back(Launch::tensor); break;
      case 2:
        if (stages == 1) break;
        orders.front().push_back(Launch::embedding);
        orders.back().push_back(Launch::embedding);
        break;
      case 3:
        if (s + 1 == stages) break;
        orders[s].push_back(Launch::send_on);
        orders[s + 1].push_back(Launch::take_on);
        break;
      default:
        if (s == 0) break;
        orders[s].push_back(Launch::send_back);
        orders[s - 1].push_back(Launch::take_back);
    }
  }
  return orders;
}

bool says_circle(const Program& p) {
  const core::Problems problems = check(p);
  CAPTURE(core::to_text(problems));
  for (const core::Problem& problem : problems)
    REQUIRE(problem.found.starts_with("a circle over communicators: "));
  return !problems.empty();
}

}  // namespace

TEST_CASE("a circle of launches is found in random orders exactly where there is one") {
  int sound = 0, circles = 0;
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    CAPTURE(seed);
    Draw draw(seed);
    Mesh mesh;
    mesh.pipeline = 1 + static_cast<int>(draw.below(4));
    mesh.data = 1 + static_cast<int>(draw.below(3));
    mesh.tensor = 1 + static_cast<int>(draw.below(2));
    Orders orders = orders_in_step(draw, static_cast<std::size_t>(mesh.pipeline));
    REQUIRE_FALSE(says_circle(program_with(orders, mesh)));
    for (std::size_t swaps = draw.below(6); swaps > 0; --swaps) {
      auto& order = orders[draw.below(orders.size())];
      if (order.empty()) continue;
      std::swap(order[draw.below(order.size())], order[draw.below(order.size())]);
    }
    const bool expected = has_circle(orders);
    REQUIRE(says_circle(program_with(orders, mesh)) == expected);
    ++(expected ? circles : sound);
  }
  CHECK(sound > 500);
  CHECK(circles > 100);
}

TEST_CASE("two groups in another order on one rank are a circle, with rank, call and group named") {
  const auto ranks = [](bool swapped) {
    std::vector<RankClass> classes;
    for (const bool server : {true, false}) {
      Builder b(server ? "server" : "worker");
      b.k.is_server = server;
      const auto x = b.buffer("x", Term::communication, {4}, 1, 1, true, DType::f32);
      for (const Group group : {Group::data, Group::context}) {
        const auto op = b.transfer({Collective::all_reduce, Algorithm::ring, Traffic::gradients,
                                    group, ReduceOp::sum, DType::f32, 0});
        b.k.end.push_back(b.call(b.block(group == Group::data ? "sum" : "norm")));
        b.act(ActionKind::collective, {whole(x)},
              group == Group::data ? Stream::gradient : Stream::context, op);
      }
      if (swapped && !server) std::swap(b.k.end[0], b.k.end[1]);
      classes.push_back(b.k);
    }
    Mesh mesh;
    mesh.data = mesh.context = 2;
    Program p = program_of(std::move(classes), mesh);
    p.servers = 1;
    return p;
  };
  for (const core::Problem& problem : check(ranks(false)))
    CHECK(problem.expected.find("launches") == std::string::npos);
  std::string circle;
  for (const core::Problem& problem : check(ranks(true)))
    if (problem.expected.find("launches") != std::string::npos) circle = core::to_text(problem);
  CAPTURE(circle);
  for (const char* words : {"a circle over communicators", "rank 0 (server), end, sum",
                            "in group data (ranks 0, 1)", "rank 1 (worker), end, norm",
                            "in group context (ranks 0, 1)", "one order on all ranks"})
    CHECK(circle.find(words) != std::string::npos);
}

TEST_CASE("of very many ranks one of each stage stands for its equals in the order of launches") {
  Mesh mesh;
  mesh.pipeline = 2;
  mesh.data = 4096;
  mesh.tensor = 8;
  Orders orders{{Launch::data, Launch::embedding, Launch::take_back},
                {Launch::embedding, Launch::send_back, Launch::data}};
  CHECK_FALSE(says_circle(program_with(orders, mesh)));
  std::swap(orders[1][0], orders[1][1]);
  CHECK_FALSE(says_circle(program_with(orders, mesh)));
  std::swap(orders[0][1], orders[0][2]);
  CHECK_FALSE(says_circle(program_with(orders, mesh)));
  std::swap(orders[1][0], orders[1][1]);
  CHECK(says_circle(program_with(orders, mesh)));
}
