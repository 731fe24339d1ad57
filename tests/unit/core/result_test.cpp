#include "core/result.hpp"

#include "tests/catch.hpp"

TEST_CASE("the nearest name is suggested and a far one is not") {
  CHECK(core::nearest("tenser", {"data", "tensor", "pipeline"}) == "tensor");
  CHECK(core::nearest("xyzzy", {"data", "tensor"}).empty());
}

TEST_CASE("a problem reads as one line with its fix") {
  const core::Problem p{"plan.json /chosen", "an object", "3", "write it"};
  CHECK(core::to_text(p) == "plan.json /chosen: expected an object, found 3; write it");
}
