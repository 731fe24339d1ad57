#include "reports/price_text.hpp"

#include "tests/catch.hpp"
#include "tests/unit/reports/sample.hpp"

using namespace reports;

TEST_CASE("a token costs the rent of all GPUs for the time that it takes") {
  hw_profiles::Gpu gpu;
  CHECK_FALSE(token_price(gpu, 8, 1000));
  gpu.price = hw_profiles::DollarsPerHour(3.6);
  // 8 x 3.6 USD / 3600 s = 0.008 USD a second, for 1000 tokens.
  CHECK(token_price(gpu, 8, 1000)->value() == Approx(8e-6));
}

TEST_CASE("money is written as people read it, with who asks for it") {
  CHECK(usd_text(cost::Dollars(6348.2)) == "6,348 USD");
  CHECK(token_price_text(cost::Dollars(9e-8)) == "0.09 USD per million tokens");
  CHECK(token_price_text(cost::Dollars(1.2e-9)) == "1.2 USD per billion tokens");
  const planner::Plan plan = reports_test::sample_plan();
  CHECK(price_text(plan.profile) ==
        "2.69 USD a GPU hour (lowest tier of RunPod as of March 2026)");
  // 8 x 24 x 2.69 USD a day; 8 x 2.69 / 3600 USD a second for 349,525 tokens.
  CHECK(rent_text(plan, *plan.chosen) ==
        "516.5 USD a day, 0.0171 USD per million tokens, at 2.69 USD a GPU hour (lowest tier of "
        "RunPod as of March 2026)");
  planner::Plan unpriced = plan;
  unpriced.profile.gpu.price.reset();
  CHECK(price_text(unpriced.profile).empty());
  CHECK(rent_text(unpriced, *plan.chosen).empty());
}
