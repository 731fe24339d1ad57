#include "hw_profiles/load.hpp"
#include "sim/cost/launches.hpp"
#include "tests/catch.hpp"
#include "tests/unit/cost/action_fixture.hpp"

using namespace cost;
using cost_test::Fixture;
using program::Action;
using program::ActionKind;

TEST_CASE("a softmax in one kernel needs whole groups of four heads") {
  Fixture f;
  models::Operator core;
  core.kind = models::OpKind::attention;
  core.rows = core.keys = 256;
  core.head_dim = 64;
  core.heads = 2;
  f.rank.operators.push_back(core);
  f.machine.score_passes = 10;
  f.machine.unfused_passes = 30;
  const Action pass = f.action(ActionKind::forward, 2, 0, 1);
  // 2 heads x 2 samples are four; with 3 samples six. A third of the passes is forward.
  const double scores = 2.0 * 256 * 256 * 2 / 1e12;  // bytes of one sample's scores, at 1 TB/s
  const double products = f.seconds(pass, 3) - f.seconds(pass, 2);
  CHECK(products > (3 * 30 - 2 * 10) / 3.0 * scores);
}

// 32 heads of queries on 8 of keys, 4096 tokens: 128 MiB for the queries of a head of keys.
TEST_CASE("attention whose backward pass finds no room in the library's workspace is this tool's") {
  Fixture f;
  models::Operator core;
  core.kind = models::OpKind::attention;
  core.rows = core.keys = 4096;
  core.head_dim = 128, core.heads = 32, core.kv_heads = 8;
  core.flops_forward = core.flops_input_gradient = core::Flops(1e12);
  const auto calls = [&](std::int64_t samples, core::Bytes most) {
    return backward_calls(core, samples, most).calls;
  };
  CHECK(calls(1, core::Bytes(256 << 20)) == 8);   // two at once need a little more
  CHECK(calls(2, core::Bytes(256 << 20)) == 0);   // it would be 16
  CHECK(calls(1, core::Bytes(1 << 30)) == 2);
  CHECK(calls(3, core::Bytes(2LL << 30)) == 3);
  CHECK(calls(1, core::Bytes(64 << 20)) == 0);    // no head of keys finds room
  f.rank.operators.push_back(core);
  const Action backward = f.action(ActionKind::input_gradient, 2, 0, 1);
  const Action forward = f.action(ActionKind::forward, 2, 0, 1);
  const double anywhere = f.seconds(backward, 1), library = f.seconds(forward, 1);
  f.machine.attention_workspace = core::Bytes(256 << 20);
  // A call has 4 heads of 32 blocks of keys; at its end as many blocks as multiprocessors wait.
  f.machine.multiprocessors = 64;
  CHECK(f.seconds(backward, 1) == Approx(anywhere * (128.0 + 64) / 128).epsilon(1e-3));
  f.machine.attention_workspace = core::Bytes(2LL << 30);
  CHECK(f.seconds(backward, 1) == Approx(anywhere * (1024.0 + 64) / 1024).epsilon(1e-3));
  f.machine.attention_workspace = core::Bytes(256 << 20);
  CHECK(f.seconds(backward, 2) > 5 * anywhere);  // 0.169 instead of 0.5
  CHECK(f.seconds(forward, 2) == Approx(2 * library).epsilon(1e-3));
  f.rank.operators[2].chunk_keys = 4096;         // cuDNN is not called for chunks
  CHECK(f.seconds(forward, 1) > 1.5 * library);
}

TEST_CASE("a workspace holds the largest call of attention's backward pass, up to its limit") {
  constexpr std::int64_t kMiB = 1 << 20, kHead = 128 * kMiB;
  models::Operator core;
  core.kind = models::OpKind::attention;
  core.rows = core.keys = 4096;
  core.head_dim = core.value_dim = 128, core.heads = 32, core.kv_heads = 8;
  const AttentionRoom room{core::Bytes(256 * kMiB), core::Bytes(2560 * kMiB)};
  const auto workspace = [&](std::int64_t samples) {
    return workspace_of({&core, 1}, samples, room).value();
  };
  const auto with_spare = [](std::int64_t bytes) { return bytes + bytes / 64 + 2 * kMiB; };
  CHECK(workspace(1) == with_spare(8 * kHead));
  CHECK(workspace(2) == with_spare(16 * kHead));
  CHECK(workspace(3) == with_spare(8 * kHead));    // three at once have no room
  CHECK(workspace(9) == 256 * kMiB);               // it would be nine calls: own kernels
  core.rows = core.keys = 512;
  CHECK(workspace(1) == 256 * kMiB);               // what is always there is enough
  core.rows = core.keys = 4096;
  core.soft_cap = 50;
  CHECK(workspace(1) == 256 * kMiB);               // no library is asked
}

TEST_CASE("only GPUs whose attention a library computes keep more room for it") {
  const auto room = [](const char* gpu, const char* framework) {
    hw_profiles::Profile profile = hw_profiles::find_profile(gpu).value();
    REQUIRE(hw_profiles::use_framework(profile, framework, "test").ok());
    return attention_room(profile);
  };
  const AttentionRoom hopper = room("h100-sxm-80g", "native");
  CHECK(hopper.always == core::Bytes(256 << 20));
  CHECK(hopper.most.value() == static_cast<std::int64_t>(79.10 * (1LL << 30)) / 32);
  const AttentionRoom ampere = room("a100-sxm-80g", "native");
  CHECK(ampere.most == ampere.always);
  const AttentionRoom other = room("h100-sxm-80g", "megatron_core");
  CHECK(other.most == other.always);
}
