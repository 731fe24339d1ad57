#include "tools/probe/statistics.hpp"

#include <algorithm>
#include <random>

#include "tests/catch.hpp"

using probe::Summary;

TEST_CASE("percentiles interpolate between order statistics") {
  // Sorted 1 2 3 4 10. p10: position 0.1 * 4 = 0.4 -> 1 + 0.4 * (2 - 1) = 1.4.
  // p90: position 3.6 -> 4 + 0.6 * (10 - 4) = 7.6. Median: position 2 -> 3.
  const Summary summary = probe::summarize({10, 3, 1, 4, 2});
  CHECK(summary.median == Approx(3.0));
  CHECK(summary.p10 == Approx(1.4));
  CHECK(summary.p90 == Approx(7.6));
  CHECK(summary.repeats == 5);
}

TEST_CASE("one sample is its own median and percentiles, no sample is null") {
  const Summary one = probe::summarize({0.25});
  CHECK(one.p10 == 0.25);
  CHECK(one.median == 0.25);
  CHECK(one.p90 == 0.25);
  CHECK(probe::summarize({}).repeats == 0);
  CHECK(probe::to_json(probe::summarize({})).dump() ==
        "{\"median\": null, \"p10\": null, \"p90\": null, \"repeats\": 0}\n");
}

TEST_CASE("a rate turns percentiles round") {
  // 8 GB in 2 s (median), 1 s (p10), 4 s (p90) is 4, 2 (slow end), 8 (fast end) GB/s.
  const Summary gb = probe::rate({2.0, 1.0, 4.0, 9}, 8.0);
  CHECK(gb.median == 4.0);
  CHECK(gb.p10 == 2.0);
  CHECK(gb.p90 == 8.0);
  CHECK(gb.repeats == 9);
  CHECK(probe::rate({}, 8.0).repeats == 0);
}

TEST_CASE("summaries are ordered and within the samples for any input") {
  const unsigned seed = 20240607;
  INFO("seed " << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 200; ++round) {
    std::vector<double> samples(1 + random() % 30);
    for (double& sample : samples) sample = static_cast<double>(random() % 1000);
    const Summary s = probe::summarize(samples);
    const auto [low, high] = std::minmax_element(samples.begin(), samples.end());
    CHECK(*low <= s.p10);
    CHECK(s.p10 <= s.median);
    CHECK(s.median <= s.p90);
    CHECK(s.p90 <= *high);
  }
}

TEST_CASE("measuring takes at least the least and at most the most samples") {
  int calls = 0;
  const auto sample = [&] { return static_cast<double>(++calls); };
  CHECK(probe::measure({3, 10, 0.0}, sample).repeats == 3);  // out of time at once
  CHECK(calls == 3);
  CHECK(probe::measure({3, 10, 1e9}, sample).repeats == 10);  // never out of time
  CHECK(calls == 13);
  CHECK(probe::measure({5, 5, 0.0}, sample).median == 16.0);  // 14 .. 18
}
