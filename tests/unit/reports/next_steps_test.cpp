#include "reports/next_steps.hpp"

#include "tests/catch.hpp"

using reports::next_steps_text;

TEST_CASE("next commands stand beside what they do") {
  CHECK(
      next_steps_text({{"--out a.json", "keeps it"}, {"planner report a.json", "draws it"}}, {}) ==
      "\nNext\n"
      "  --out a.json           keeps it\n"
      "  planner report a.json  draws it\n");
}

TEST_CASE("without a next command there is no heading") { CHECK(next_steps_text({}, {}).empty()); }

TEST_CASE("a long command goes on after a backslash and is explained below") {
  CHECK(next_steps_text({{"planner --model llama3-8b --gpus 64 --gpu h100-sxm-80g --seq 8192 "
                          "--framework megatron_core --out plan.json",
                          "plans it in full"}},
                        {}) ==
        "\nNext\n"
        "  planner --model llama3-8b --gpus 64 --gpu h100-sxm-80g --seq 8192 \\\n"
        "      --framework megatron_core --out plan.json\n"
        "    plans it in full\n");
}

TEST_CASE("a quoted word of a command is not broken") {
  const std::string name(60, 'a');
  const std::string text = next_steps_text(
      {{core::code("planner --model {} --gpus 8 --out plan.json",
                   core::Code::shell(name + " --odd name")),
        "plans it"}}, {});
  CHECK(text.find("'" + name + " --odd name'") != std::string::npos);
  CHECK(text.find("--gpus 8 --out plan.json\n") != std::string::npos);
}

TEST_CASE("energy is printed in watt-hours and their multiples") {
  CHECK(reports::energy_text(3.6e3) == "1 Wh");
  CHECK(reports::energy_text(9.0e6) == "2.5 kWh");    // 9.0e6 / 3.6e6
  CHECK(reports::energy_text(5.1e9) == "1.42 MWh");   // 5.1e9 / 3.6e9
}
