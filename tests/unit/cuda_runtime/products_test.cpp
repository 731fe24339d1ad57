// What products.cpp asks of cuBLASLt, computed as cuBLASLt would, beside exec/host.
#include "exec/cuda/runtime/products.hpp"

#include <unistd.h>

#include <filesystem>

#include "core/file.hpp"
#include "exec/cuda/api/failure.hpp"
#include "tests/unit/cuda_runtime/fake_cublaslt.hpp"
#include "tests/unit/kernels/support.hpp"

using namespace kernel_tests;
using exec::cuda::Products;

namespace {

double difference(Buffer& a, Buffer& b) {
  const Values x = a.values(), y = b.values();
  double off = 0, size = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    off += (x[i] - y[i]) * (x[i] - y[i]);
    size += y[i] * y[i];
  }
  return std::sqrt(off / size);
}

void check_close(Buffer& found, Buffer& expected, DType type) {
  CHECK(difference(found, expected) <= (type == f64 ? 1e-14 : 1e-6 + 2 * roundoff(type)));
  CHECK(std::equal(found.bytes().end() - 64, found.bytes().end(), expected.bytes().end() - 64));
}

struct Case {
  Case(Random& r, DType type, DType result, const MixedGemm& shape)
      : g(shape),
        a(random(r, type, rows(g.a, g.m, g.k) * g.a.leading)),
        b(random(r, type, rows(g.b, g.k, g.n) * g.b.leading)),
        c(random(r, result, g.m * g.c.leading)), bias(random(r, result, g.n)) {
    g.a.view = a;
    g.b.view = b;
    g.c.view = c;
  }
  static std::int64_t rows(const Matrix& m, std::int64_t r, std::int64_t columns) {
    return m.transposed ? columns : r;
  }
  MixedGemm g;
  Buffer a, b, c, bias;
};

}  // namespace

TEST_CASE("products of every layout, type and epilogue are the host's") {
  Random r(51);
  Products products;
  for (const DType t : {DType::f64, DType::f32, DType::bf16, DType::f16})
    for (const DType result : {t, t == DType::f64 ? t : DType::f32})
      for (int form = 0; form < 32; ++form) {
        const bool ta = form & 1, tb = form & 2, accumulate = form & 4, biased = form & 8,
                   apart = form & 16;
        const std::int64_t m = 7, n = 10, k = 13, more = apart ? 3 : 0;
        Case x(r, t, result,
               {.m = m, .n = n, .k = k,
                .a = {{}, (ta ? m : k) + more, ta}, .b = {{}, (tb ? k : n) + more, tb},
                .c = {{}, n + more}, .accumulate = accumulate, .alpha = apart ? 0.5 : 1.0});
        if (biased && t != DType::f64) x.g.bias = x.bias;
        Buffer c2 = x.c;
        MixedGemm expected = x.g;
        expected.c.view = c2;
        Scratch ws(mixed_gemm_workspace(t, m, n, k));
        products.multiply(x.g, nullptr, nullptr);
        mixed_gemm(t, expected, ws);
        INFO("form " << form << " of " << core::name(t) << " into " << core::name(result));
        check_close(x.c, c2, result);
      }
}

TEST_CASE("products of a batch are the host's one after the other, and one call") {
  Random r(57);
  Products products;
  for (const DType t : {DType::f64, DType::f32, DType::bf16, DType::f16})
    for (const bool accumulate : {false, true})
      for (const std::int64_t k : {16, 9}) {  // matrices that lie at multiples of 16 bytes, or not
        const std::int64_t m = 6, n = 8, count = 5;
        Buffer a = random(r, t, count * m * k), b = random(r, t, count * n * k);
        Buffer c = random(r, t, count * m * n), c2 = c;
        MixedGemm g{.m = m, .n = n, .k = k,
                    .a = {a, k, false, m * k}, .b = {b, k, true, n * k}, .c = {c, n, false, m * n},
                    .accumulate = accumulate, .count = count};
        const int asked = fake_cublaslt::heuristics;
        products.multiply(g, nullptr, nullptr);
        CHECK(fake_cublaslt::heuristics == asked + 1);
        for (std::int64_t i = 0; i < count; ++i) {
          const MixedGemm one{.m = m, .n = n, .k = k,
                              .a = {a.view().at(i * m * k), k},
                              .b = {b.view().at(i * n * k), k, true},
                              .c = {c2.view().at(i * m * n), n}, .accumulate = accumulate};
          Scratch ws(mixed_gemm_workspace(t, m, n, k));
          mixed_gemm(t, one, ws);
        }
        check_close(c, c2, t);
      }
}

TEST_CASE("a GELU after a product and its gradient are the host's, what is kept lies as c does") {
  Random r(52);
  Products products;
  for (const DType t : {DType::bf16, DType::f16})
    for (const bool biased : {true, false}) {
      Case x(r, t, t, {.m = 5, .n = 16, .k = 9, .a = {{}, 9}, .b = {{}, 9, true}, .c = {{}, 16}});
      if (biased) x.g.bias = x.bias;
      Buffer kept(t, x.c.size()), sums(f32, x.c.size()), gelus(f32, x.c.size());
      MixedGemm expected = x.g;
      Scratch ws(mixed_gemm_workspace(t, 5, 16, 9));
      expected.c.view = sums;
      REQUIRE(products.multiply_gelu(x.g, kept, false, nullptr, nullptr));
      mixed_gemm(t, expected, ws);
      gelu(gelus, sums, sums.size());
      check_close(kept, sums, t);
      check_close(x.c, gelus, t);

      Buffer before = random(r, t, x.c.size()), before32(f32, before.values());
      x.g.bias = expected.bias = {};
      REQUIRE(products.multiply_gelu(x.g, before, true, nullptr, nullptr));
      mixed_gemm(t, expected, ws);
      gelu_gradient(sums, sums, before32, sums.size());
      check_close(x.c, sums, t);
    }
}

TEST_CASE("a choice is kept for places that are as good, and asked for anew where they are worse") {
  Random r(53);
  Products products;
  Case x(r, DType::bf16, DType::bf16,
         {.m = 4, .n = 16, .k = 8, .a = {{}, 8}, .b = {{}, 16}, .c = {{}, 16}});
  Buffer biases = random(r, DType::bf16, 400);
  const auto aligned = [&](std::uintptr_t bytes) {  // to these and to no more
    std::int64_t i = 0;
    while ((reinterpret_cast<std::uintptr_t>(biases.view().at(i).data) & (2 * bytes - 1)) != bytes)
      ++i;
    return biases.view().at(i);
  };
  const auto asked = [&](View bias) {
    const int before = fake_cublaslt::heuristics;
    x.g.bias = bias;
    products.multiply(x.g, nullptr, nullptr);
    return fake_cublaslt::heuristics - before;
  };
  CHECK(asked(aligned(64)) == 1);
  CHECK(asked(aligned(64)) == 0);
  CHECK(asked(aligned(16)) == 1);
  CHECK(asked(aligned(16)) == 0);
}

TEST_CASE("what the library has not is told: of an epilogue by the result, of a product once") {
  Random r(54);
  Products products;
  Case x(r, DType::bf16, DType::bf16,
         {.m = 4, .n = 16, .k = 8, .a = {{}, 8}, .b = {{}, 16}, .c = {{}, 16}});
  Buffer kept(DType::bf16, x.c.size());
  fake_cublaslt::has_epilogues = false;
  CHECK_FALSE(products.multiply_gelu(x.g, kept, false, nullptr, nullptr));
  CHECK_NOTHROW(products.multiply(x.g, nullptr, nullptr));
  fake_cublaslt::has_products = false;
  x.g.alpha = 2;
  x.g.accumulate = true;
  CHECK_THROWS_AS(products.multiply(x.g, nullptr, nullptr), exec::cuda::DeviceFailure);
  fake_cublaslt::has_products = fake_cublaslt::has_epilogues = true;
}

TEST_CASE("choices of a file are taken untimed, others are timed and added") {
  Random r(56);
  fake_cublaslt::times = {1.0F, 0.995F, 0.5F, 0.7F};
  Case x(r, DType::bf16, DType::bf16,
         {.m = 4, .n = 16, .k = 8, .a = {{}, 8}, .b = {{}, 16}, .c = {{}, 16}});
  const auto proposal_of = [&](exec::cuda::ProductChoices& choices, std::size_t calls) {
    Products products;
    products.time_algorithms(&choices);
    fake_cublaslt::ran.clear();
    products.multiply(x.g, nullptr, nullptr);
    CHECK(fake_cublaslt::ran.size() == calls);
    return fake_cublaslt::ran.back();
  };
  exec::cuda::ProductChoices choices{"a GPU", "a library", {}, 0};
  CHECK(proposal_of(choices, 17) == 2);
  CHECK(choices.added == 1);
  CHECK(choices.of.begin()->second.seconds == Approx(0.5e-3));
  CHECK(choices.of.begin()->second.first_seconds == Approx(1e-3));
  const std::string file = (std::filesystem::temp_directory_path() /
                            ("products-" + std::to_string(::getpid()) + ".json")).string();
  REQUIRE(exec::cuda::write_product_choices(file, choices).ok());
  auto read = exec::cuda::read_product_choices(file);
  REQUIRE(read.ok());
  CHECK(read->gpu == "a GPU");
  CHECK(read->library == "a library");
  CHECK(proposal_of(*read, 1) == 2);   // nothing is timed
  CHECK(read->added == 0);
  fake_cublaslt::times = {1.0F, 0.5F};  // of a library that has fewer
  CHECK(proposal_of(*read, 9) == 1);
  CHECK(read->added == 1);
  fake_cublaslt::times = {1};
  CHECK(exec::cuda::read_product_choices(file + ".none")->of.empty());
  const std::string rest = R"(, "gpu": "", "library": "", "choices": [)";
  for (const std::string& text :
       {std::string("{"), R"({"schema": "products/1")" + rest + "]}",
        R"({"schema": "products/2")" + rest +
            R"({"key": [1], "proposal": 0, "seconds": 0, "first_seconds": 0}]})"}) {
    REQUIRE(core::write_atomically(file, text).ok());
    CHECK_FALSE(exec::cuda::read_product_choices(file).ok());
  }
  std::filesystem::remove(file);
}

// Sums that are added to are not made twice, whatever is tried.
TEST_CASE("products that are timed take the fastest proposal, which is kept, and add once") {
  Random r(55);
  fake_cublaslt::times = {1.0F, 0.995F, 0.5F, 0.7F};
  for (const bool accumulate : {false, true}) {
    Case x(r, DType::bf16, DType::bf16,
           {.m = 4, .n = 16, .k = 8, .a = {{}, 8}, .b = {{}, 16}, .c = {{}, 16}});
    x.g.accumulate = accumulate;
    const Values before = x.c.values();
    const auto result = [&](Products& products, std::size_t calls) {
      exec::host::store(x.g.c.view, static_cast<std::int64_t>(before.size()), before.data());
      fake_cublaslt::ran.clear();
      products.multiply(x.g, nullptr, nullptr);
      CHECK(fake_cublaslt::ran.size() == calls);
      return x.c.values();
    };
    Products first, timed;
    timed.time_algorithms();
    const Values expected = result(first, 1);
    CHECK(fake_cublaslt::ran.back() == 0);
    CHECK(result(timed, 4 * 4 + 1) == expected);
    CHECK(fake_cublaslt::ran.back() == 2);
    CHECK(result(timed, 1) == expected);
    CHECK(fake_cublaslt::ran.back() == 2);
    for (bool* const hinders : {&fake_cublaslt::capturing, &fake_cublaslt::has_memory}) {
      Products again;
      again.time_algorithms();
      *hinders = !*hinders;
      const bool timed_now = hinders == &fake_cublaslt::has_memory && !accumulate;
      CHECK(result(again, timed_now ? 17 : 1) == expected);
      *hinders = !*hinders;
    }
  }
  fake_cublaslt::times = {1};
}
