#include "exec/cuda/nccl/plugin/choices.hpp"

#include <array>

#include "exec/cuda/nccl/plugin/abi.hpp"
#include "tests/catch.hpp"

using namespace exec::cuda::nccl;

namespace {

constexpr const char* kText =
    "all_reduce 8 1048576 tree ll128 4\n"
    "all_reduce 8 67108864 ring auto auto\n"
    "all_gather 4 4096 ring simple auto\n";

using Costs = std::array<float, kAlgorithms * kProtocols>;

// All pairs cost 10, but for those of tree: 3, 2, 4.
Costs costs() {
  Costs all;
  all.fill(10);
  all[0] = 3, all[1] = 2, all[2] = 4;
  return all;
}

}  // namespace

TEST_CASE("choices of NCCL read back as they are written") {
  int wrong = 0;
  const auto read = choices_from(kText, wrong);
  REQUIRE(read);
  REQUIRE(read->size() == 3);
  CHECK((*read)[0] == Choice{kAllReduceCall, 8, 1048576, 0, 1, 4});
  CHECK((*read)[1] == Choice{kAllReduceCall, 8, 67108864, 1, std::nullopt, std::nullopt});
  CHECK(to_text(*read) == kText);
  CHECK(choices_from("", wrong)->empty());
}

TEST_CASE("a line of choices that is wrong is named by its number") {
  for (const char* line :
       {"all_reduce 8 1048576 tree ll128", "send 8 1048576 ring auto auto",
        "all_reduce 0 1048576 ring auto auto", "all_reduce 8 -1 ring auto auto",
        "all_reduce 8 4k ring auto auto", "all_reduce 8 4 star auto auto",
        "all_reduce 8 4 ring fast auto", "all_reduce 8 4 ring auto 0",
        "all_reduce 8 4 ring auto auto auto"}) {
    CAPTURE(line);
    int wrong = 0;
    CHECK_FALSE(choices_from(std::string(kText) + line + "\n", wrong));
    CHECK(wrong == 4);
  }
}

TEST_CASE("of choices of a call the one of the nearest size holds, and none of other ranks") {
  int wrong = 0;
  const std::vector<Choice> all = *choices_from(kText, wrong);
  // 8 MiB is as far from 1 MiB as from 64 MiB.
  CHECK(choose(all, kAllReduceCall, 8, 7 << 20) == &all[0]);
  CHECK(choose(all, kAllReduceCall, 8, 9 << 20) == &all[1]);
  CHECK(choose(all, kAllReduceCall, 8, 0) == &all[0]);
  CHECK(choose(all, kAllReduceCall, 4, 8 << 20) == nullptr);
  CHECK(choose(all, kBroadcastCall, 8, 8 << 20) == nullptr);
}

TEST_CASE("a chosen pair becomes the cheapest, and what NCCL cannot run stays as it was") {
  Costs table = costs();
  REQUIRE(apply({kAllReduceCall, 8, 1, 1, 2, {}}, table.data(), kAlgorithms, kProtocols));
  CHECK(table[1 * kProtocols + 2] == 0);
  // In its cheapest protocol where none is chosen: ll128 of tree.
  table = costs();
  REQUIRE(apply({kAllReduceCall, 8, 1, 0, {}, {}}, table.data(), kAlgorithms, kProtocols));
  Costs expected = costs();
  expected[1] = 0;
  CHECK(table == expected);
  // Neither a pair that is ruled out, nor a row that an older release does not have.
  table = costs();
  table[1 * kProtocols + 2] = kIgnored;
  const Costs before = table;
  CHECK_FALSE(apply({kAllReduceCall, 8, 1, 1, 2, {}}, table.data(), kAlgorithms, kProtocols));
  CHECK_FALSE(apply({kAllReduceCall, 8, 1, 6, {}, {}}, table.data(), 6, kProtocols));
  CHECK(table == before);
}
