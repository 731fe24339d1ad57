// Attention over keys of other context ranks against exec/host: keys of all ranks at once, and
// blocks that come round a ring one after the other, merged in the statistics' type.
#include "exec/interpret/operator_shapes.hpp"
#include "tests/unit/cuda/support.hpp"

using namespace cuda_tests;
namespace host = exec::host;

namespace {

constexpr int kRanks = 3;

// A rank's attention; step -1: over the keys of all ranks.
struct RankCase {
  std::int64_t rows, heads, kv_heads, d, dv;
  int rank, step;
  bool causal = true, alibi = false;
  std::int64_t window = 0, chunk = 0;
  double soft_cap = 0;
};

host::AttentionShape shape_of(const RankCase& c) {
  models::Operator op;
  op.rows = c.rows, op.heads = c.heads, op.kv_heads = c.kv_heads;
  op.head_dim = c.d, op.value_dim = c.dv;
  op.causal = c.causal, op.alibi = c.alibi;
  op.window_keys = c.window, op.chunk_keys = c.chunk, op.soft_cap = c.soft_cap;
  op.keys = c.step < 0 ? c.rows * kRanks : c.rows;
  op.ring_step = std::max(0, c.step);
  op.ring_steps = c.step < 0 ? 0 : kRanks;
  exec::KernelContext context;
  context.samples = 2;
  context.heads = c.heads;
  context.slice = {c.rows, c.rank, kRanks};
  return exec::attention_shape(op, context);
}

// On tensor cores weights are rounded before they meet values, and so are the gradients of scores
// before they meet keys: once more than host::attention() rounds, each by the unit of the type.
double allowed(DType t) { return bound(t) + (core::bits(t) == 16 ? 4 * roundoff(t) : 0); }

void check_near(const char* what, Buffer& found, Buffer& expected, DType t) {
  check_close(what, found, expected, t, allowed(t));
}

void check_all_keys(const RankCase& c, DType t, Random& r) {
  const host::AttentionShape s = shape_of(c);
  const std::int64_t rows = s.samples * s.seq, columns = s.key_columns();
  const std::int64_t wide = s.qkv_columns(), out = s.heads * s.values();
  Device device;
  const cuda::Queue q = device.queue();
  Buffer qkv = random(r, t, rows * wide, 2), dout = random(r, t, rows * out);
  Buffer keys = random(r, t, s.samples * s.keys * columns, 2), keys2 = keys;
  Buffer y(t, rows * out), y2 = y, lse(statistic(t), s.samples * s.heads * s.seq), lse2 = lse;
  Buffer dx = zeros(t, rows * wide), dx2 = dx;
  Scratch ws(host::attention_workspace(t, s));
  cuda::block_attention(q, {y, out}, {}, lse, qkv, {keys, columns}, s);
  device.wait();
  host::attention(y2, lse2, qkv, s, ws, keys2);
  check_near("out", y, y2, t);
  check_close("log sum exp", lse, lse2, statistic(t));
  // Keys become their gradients; of dqkv the queries' columns alone are written.
  cuda::block_attention_input_gradient(q, {{dx, wide}, {}, {keys, columns}}, dout, qkv, y2, lse2,
                                       {keys, columns}, s);
  device.wait();
  host::attention_input_gradient(dx2, dout, qkv, y2, lse2, s, ws, keys2);
  check_near("gradients of keys", keys, keys2, t);
  check_near("gradients of queries", dx, dx2, t);
}

// Runs all steps of a ring. Steps add to sums in the statistics' type; the last step writes
// activations.
void check_ring(RankCase c, DType t, Random& r) {
  c.step = 0;
  const host::AttentionShape own = shape_of(c);
  const std::int64_t rows = own.samples * own.seq, columns = own.key_columns();
  const std::int64_t wide = own.qkv_columns(), of_q = own.heads * own.head_dim;
  const std::int64_t out = own.heads * own.values();
  const DType sums = statistic(t);
  Device device;
  const cuda::Queue q = device.queue();
  Buffer qkv = random(r, t, rows * wide, 2), dout = random(r, t, rows * out);
  std::vector<Buffer> keys;
  for (int step = 0; step < kRanks; ++step) keys.push_back(random(r, t, rows * columns, 2));
  Buffer sum(sums, rows * out), sum2 = sum, y(t, rows * out), y2 = y;
  Buffer lse(sums, own.samples * own.heads * own.seq), lse2 = lse;
  Scratch ws(host::attention_workspace(t, own));
  const auto keys_of = [&](int step) {
    const auto i = static_cast<std::size_t>(step);
    return step == 0 ? cuda::RowsAt{View(qkv).at(of_q), wide} : cuda::RowsAt{keys[i], columns};
  };
  for (int step = 0; step < kRanks; ++step) {
    c.step = step;
    const host::AttentionShape s = shape_of(c);
    const bool last = step + 1 == kRanks;
    cuda::block_attention(q, {last ? y : sum, out}, step > 0 ? cuda::RowsAt{sum, out}
                                                             : cuda::RowsAt{},
                          lse, qkv, keys_of(step), s);
    device.wait();
    host::attention(sum2, lse2, qkv, s, ws,
                    step == 0 ? View{} : View(keys[static_cast<std::size_t>(step)]));
  }
  host::cast(y2, sum2, rows * out);
  check_near("out", y, y2, t);
  check_close("log sum exp", lse, lse2, sums);

  Buffer dq(sums, rows * of_q), dq2 = dq, dkeys(t, rows * columns), dkeys2 = dkeys;
  host::fill_zero(dq2, rows * of_q);
  for (int step = 1; step < kRanks; ++step) {
    c.step = step;
    const host::AttentionShape s = shape_of(c);
    const cuda::RowsAt so_far{dq, of_q};
    cuda::block_attention_input_gradient(
        q, {so_far, step > 1 ? so_far : cuda::RowsAt{}, {dkeys, columns}}, dout, qkv, y2, lse2,
        keys_of(step), s);
    device.wait();
    host::attention_block_gradient({dq2, of_q, dkeys2, columns}, dout, qkv, y2, lse2, s, ws,
                                   keys[static_cast<std::size_t>(step)]);
    check_near("gradients of a block", dkeys, dkeys2, t);
    // Sums have the statistics' type: what is rounded in 16 bits is what they are made of.
    CHECK(difference(dq, dq2) <= allowed(t));
  }
  Buffer dx(t, rows * wide), dx2 = dx;
  cuda::block_attention_input_gradient(
      q, {{dx, wide}, {dq, of_q}, {View(dx).at(of_q), wide}}, dout, qkv, y2, lse2, keys_of(0), own);
  device.wait();
  host::attention_block_gradient({dq2, of_q, View(dx2).at(of_q), wide}, dout, qkv, y2, lse2, own,
                                 ws);
  for (std::int64_t row = 0; row < rows; ++row)
    host::cast(View(dx2).at(row * wide), View(dq2).at(row * of_q), of_q);
  check_near("gradients", dx, dx2, t);
}

// Heads on tensor cores (128, and padded to 64) and others; rows of several tiles.
constexpr std::int64_t kHeads[][2] = {{40, 40}, {128, 128}, {24, 16}};

}  // namespace

TEST_CASE("attention over keys of all ranks is its host twin, whatever a query sees of them") {
  Random r(3);
  for (const DType t : kTypes)
    for (const auto& [d, dv] : kHeads)
      for (int rank = 0; rank < kRanks; ++rank) {
        const RankCase plain{70, 2, 1, d, dv, rank, -1};
        check_all_keys(plain, t, r);
        if (d == 128 || rank == 0) continue;
        RankCase other = plain;
        other.window = 25;
        check_all_keys(other, t, r);
        other = plain;
        other.chunk = 32;
        check_all_keys(other, t, r);
        other = plain;
        other.soft_cap = 3;
        check_all_keys(other, t, r);
        other = plain;
        other.alibi = true;
        check_all_keys(other, t, r);
        other = plain;
        other.causal = false;
        check_all_keys(other, t, r);
      }
}

TEST_CASE("blocks of keys that come round a ring add up to their host twins") {
  Random r(4);
  for (const DType t : kTypes)
    for (const auto& [d, dv] : kHeads)
      for (int rank = 0; rank < kRanks; ++rank) {
        check_ring({70, 2, 1, d, dv, rank, 0}, t, r);
        if (d == 128 || rank == 0) continue;
        check_ring({71, 2, 2, d, dv, rank, 0, false}, t, r);
        check_ring({70, 2, 1, d, dv, rank, 0, true, true}, t, r);
      }
}
