// Which attention is called: a library's as far as its workspace and what it has go, own kernels
// elsewhere, and what the record says of it.
#include "exec/cuda/backend/attention_choice.hpp"
#include "exec/cuda/twin/twin.hpp"
#include "tests/unit/cuda/support.hpp"

using namespace cuda_tests;
using cuda::AttentionChoice;
using cuda::AttentionKernel;
namespace host = exec::host;

namespace {

constexpr DType kType = DType::bf16;

// Attention of one shape, of own kernels' shape and the host's values.
class Case {
 public:
  explicit Case(const host::AttentionShape& shape)
      : s(shape), qkv(random(random_, kType, s.samples * s.seq * s.qkv_columns(), 2)),
        dout(random(random_, kType, outs())), out(kType, outs()), lse(DType::f32, statistics()),
        dqkv(kType, qkv.size()) {}
  const host::AttentionShape s;

 private:
  Random random_{51};

 public:
  std::int64_t outs() const { return s.samples * s.seq * s.heads * s.head_dim; }
  std::int64_t statistics() const { return s.samples * s.heads * s.seq; }
  Buffer qkv, dout, out, lse, dqkv;
};

// Both passes with so much workspace: whether the library was given them, and how many calls.
struct Given {
  bool forward = false, backward = false;
  std::int64_t calls = 0;
  std::string text;
};

Given given(Case& c, std::size_t workspace, AttentionKernel asked = AttentionKernel::automatic,
            const char* fault = nullptr) {
  cuda::Twin twin;
  if (fault != nullptr) twin.fail(fault, 1, cuda::FailureKind::launch);
  AttentionChoice choice(asked, twin);
  std::vector<std::byte> memory(workspace + 64);
  const cuda::StreamHandle stream = twin.create_stream(false);
  const cuda::Queue q{twin, stream, 4, memory.data(), workspace};
  Given g;
  g.forward = choice.forward(q, c.out, c.lse, c.qkv, c.s);
  g.backward = choice.backward(q, c.dqkv, c.dout, c.qkv, c.out, c.lse, c.s);
  twin.synchronise(stream);
  twin.destroy(stream);
  g.calls = twin.launches()["library_attention"];
  g.text = choice.text();
  return g;
}

// Samples, tokens, heads on heads of keys, their size. A head's scores take 2 x 16 x 16 = 512
// bytes.
const host::AttentionShape kShape{4, 16, 6, 2, 8, true};
constexpr std::size_t kHead = 512;

bool says(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

}  // namespace

TEST_CASE(
    "a library is called once, or in equal parts that its workspace allows, with one result") {
  Case whole(kShape);
  Case expected(kShape);
  Scratch ws(host::attention_workspace(kType, kShape));
  host::attention(expected.out, expected.lse, expected.qkv, kShape, ws);
  host::attention_input_gradient(expected.dqkv, expected.dout, expected.qkv, expected.out,
                                 expected.lse, kShape, ws);
  CHECK(given(whole, 24 * kHead).calls == 1 + 1);
  check_close("out", whole.out, expected.out, kType);
  check_close("lse", whole.lse, expected.lse, DType::f32);
  check_close("dqkv", whole.dqkv, expected.dqkv, kType);
  // A sample has 6 heads of queries, 3 of each of its 2 of keys. Parts are equal: of 3 samples that
  // would fit 2 are taken.
  const std::pair<std::size_t, std::int64_t> cells[] = {
      {23, 2}, {18, 2}, {12, 2}, {11, 4}, {6, 4}, {5, 8}, {3, 8}};
  for (const auto& [heads, calls] : cells) {
    INFO(heads << " heads fit");
    Case parts(kShape);
    const Given g = given(parts, heads * kHead);
    CHECK(g.forward);
    CHECK(g.backward);
    CHECK(g.calls == 1 + calls);
    CHECK(parts.out == whole.out);
    CHECK(parts.lse == whole.lse);
    CHECK(parts.dqkv == whole.dqkv);
    CHECK(says(g.text, "backward of 4 x 16, 6 heads on 2 of 8, bf16: the twin's library in " +
                           std::to_string(calls) + " calls"));
  }
}

TEST_CASE(
    "own kernels compute what does not fit or the library does not have, and the reason is told") {
  Case c(kShape);
  const Given small = given(c, 3 * kHead - 1);
  CHECK(small.forward);
  CHECK(!small.backward);
  CHECK(says(small.text, "own kernels, a head of keys takes a workspace of 1.50 KiB"));

  Case odd({4, 15, 3, 1, 8, true});
  const Given apart = given(odd, 3 * 450);
  CHECK(!apart.backward);
  CHECK(says(apart.text, "its parts' statistics would lie at no multiples of 16 bytes"));
  CHECK(given(odd, 4 * 3 * 450).backward);

  const Given refused = given(c, 24 * kHead, AttentionKernel::automatic, "prepare_attention");
  CHECK(!refused.forward);
  CHECK(refused.backward);
  CHECK(says(refused.text, "forward of 4 x 16, 6 heads on 2 of 8, bf16: own kernels, prepare_att"));

  Case heads({1, 16, 2, 2, 4, true});
  CHECK(!given(heads, 24 * kHead).forward);
  CHECK(says(given(heads, 24 * kHead).text, "lie at no multiples of 16 bytes"));
}

TEST_CASE("without a library own kernels compute, and whoever asked for it is told why") {
  Case c(kShape);
  const Given own = given(c, 24 * kHead, AttentionKernel::own);
  CHECK(!own.forward);
  CHECK(own.text == "own kernels");
  const Given absent = given(c, 24 * kHead, AttentionKernel::automatic, "open_attention");
  CHECK(!absent.forward);
  CHECK(!absent.backward);
  CHECK(says(absent.text, "own kernels: open_attention: a failure that a test asked for"));
  cuda::Twin twin;
  CHECK(AttentionChoice(AttentionKernel::library, twin).text() == "the twin's library, not called");
  twin.fail("open_attention", 1, cuda::FailureKind::launch);
  CHECK(!AttentionChoice(AttentionKernel::library, twin).absent().empty());
}
