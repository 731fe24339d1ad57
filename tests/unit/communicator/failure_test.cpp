#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "core/thread.hpp"
#include "tests/catch.hpp"
#include "tests/no_threads.hpp"
#include "tests/unit/communicator/group.hpp"

using namespace exec;
using core::DType;
using program::Algorithm;
using program::ReduceOp;
using program::Traffic;

namespace {

void add(Communicator& c) {
  float x = 1;
  c.all_reduce(&x, 1, DType::f32, ReduceOp::sum, Algorithm::ring, Traffic::gradients);
}

// What a run of two ranks failed with; empty if it did not.
std::string failure_of(const std::function<void(Communicator&)>& body, LocalOptions options = {}) {
  try {
    run_group(2, body, std::move(options));
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a rank that throws wakes all others with its message and is reported once") {
  std::vector<std::string> seen(4);
  LocalWorld world(4);
  const auto body = [&](int rank) {
    const auto c = world.communicator(rank, everyone(4), 0);
    try {
      for (int i = 0; i < 1000; ++i) {
        if (rank == 2 && i == 5) throw std::runtime_error("the disk is full");
        add(*c);
      }
    } catch (const Aborted& e) {
      seen[rank] = e.what();
      throw;
    }
  };
  CHECK_THROWS_WITH(world.run(body), "the disk is full");
  for (int rank : {0, 1, 3}) CHECK(seen[rank] == "rank 2: the disk is full");
  CHECK(seen[2].empty());
}

TEST_CASE("a rank whose thread cannot start ends the world, and those that run are joined") {
  for (int allowed = 0; allowed < 4; ++allowed) {
    CAPTURE(allowed);
    LocalWorld world(4);
    const no_threads::Only only(allowed);
    const auto body = [&](int rank) { add(*world.communicator(rank, everyone(4), 0)); };
    CHECK_THROWS_AS(world.run(body), core::ThreadRefused);
  }
}

TEST_CASE("every kind of waiting ends when the world is aborted") {
  std::atomic<int> waiting{0}, woken{0};
  LocalWorld world(6);
  const auto wait_for = [&](int rank, Communicator& c) {
    float x = 0;
    ++waiting;
    switch (rank) {
      case 0: return c.recv(&x, 1, DType::f32, 5, 0, Traffic::pipeline);
      case 1: return c.barrier();
      case 2: return c.pull(0, &x, 1, DType::f32, Traffic::gradients);
      case 3: return c.broadcast(&x, 1, DType::f32, 5, Traffic::loss);
      default: c.next_push();
    }
  };
  const auto body = [&](int rank) {
    const auto c = world.communicator(rank, everyone(6), 0);
    c->use_servers({6, 1, true});
    if (rank == 5) {
      while (waiting < 5) std::this_thread::yield();
      return world.abort(5, "stop");
    }
    try {
      wait_for(rank, *c);
    } catch (const Aborted& e) {
      woken += e.rank() == 5 ? 1 : 0;
      throw;
    }
  };
  CHECK_THROWS_AS(world.run(body), Aborted);
  CHECK(woken == 5);
}

TEST_CASE("a world that was aborted refuses further calls with the first cause") {
  LocalWorld world(2);
  world.abort(1, "first");
  world.abort(0, "second");
  const auto c = world.communicator(0, everyone(2), 0);
  CHECK_THROWS_WITH(add(*c), "rank 1: first");
}

TEST_CASE("ranks that call different collectives are told what each called") {
  const std::string text = failure_of([](Communicator& c) {
    std::vector<float> v(8);
    add(c);
    if (c.index() == 0) {
      return c.all_gather(v.data(), v.data(), 8, DType::f32, Traffic::parameters);
    }
    c.all_reduce(v.data(), 8, DType::bf16, ReduceOp::sum, Algorithm::ring, Traffic::gradients);
  });
  INFO(text);
  CHECK(has(text, "rank 0 called all_gather of 8 f32 for parameters, call 1"));
  CHECK(has(text, "rank 1 called all_reduce(ring, sum) of 8 bf16 for gradients, call 1"));
}

TEST_CASE("a difference in size, type, operation, key or purpose alone is a mismatch") {
  const auto mismatch = [](const std::function<void(Communicator&)>& body) {
    CHECK_THROWS_AS(run_group(2, body), OrderMismatch);
  };
  mismatch([](Communicator& c) {
    std::vector<float> v(8);
    c.all_reduce(v.data(), 6 + c.index(), DType::f32, ReduceOp::sum, Algorithm::tree,
                 Traffic::gradients);
  });
  mismatch([](Communicator& c) {
    float x = 0;
    c.all_reduce(&x, 1, c.index() == 0 ? DType::f32 : DType::i32, ReduceOp::sum, Algorithm::tree,
                 Traffic::gradients);
  });
  mismatch([](Communicator& c) {
    float x = 0;
    c.all_reduce(&x, 1, DType::f32, c.index() == 0 ? ReduceOp::sum : ReduceOp::max,
                 Algorithm::naive_all_reduce, Traffic::gradients);
  });
  mismatch([](Communicator& c) {
    float x = 0;
    c.broadcast(&x, 1, DType::f32, 0, c.index() == 0 ? Traffic::loss : Traffic::norm);
  });
  mismatch([](Communicator& c) {
    float x[2] = {};
    if (c.index() == 0) return c.send(x, 2, DType::f32, 1, 0, Traffic::pipeline);
    c.recv(x, 1, DType::f32, 0, 0, Traffic::pipeline);
  });
  mismatch([](Communicator& c) {
    float x = 0;
    c.use_servers({1, 1, false});
    if (c.index() == 0) return c.push(4, &x, 1, DType::f32, Traffic::gradients);
    c.collect(5, &x, 1, DType::f32, ReduceOp::sum, Traffic::gradients);
  });
}

TEST_CASE("a wait beyond the stall limit names who waited for whom") {
  LocalOptions options;
  options.stall_limit = core::Seconds(0.02);
  const std::string text = failure_of(
      [](Communicator& c) {
        float x = 0;
        if (c.index() == 1) c.recv(&x, 1, DType::f32, 0, 9, Traffic::pipeline);
      },
      options);
  CHECK(has(text, "rank 1: waited more than 0.02 s for a message from rank 0"));
}
