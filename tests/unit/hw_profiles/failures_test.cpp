// Rates of failures: the shipped ones, and what is said of files that cannot be meant.
#include "hw_profiles/failures.hpp"

#include <string>

#include "tests/catch.hpp"

using hw_profiles::Failing;
using hw_profiles::FailureRates;

namespace {

std::string rates_said(const std::string& rates) {
  const auto read = hw_profiles::failures_from_json_text(
      R"({"schema": "failures/1", "id": "mine", "rates": [)" + rates + "]}", "mine.json");
  return read.ok() ? "nothing" : core::to_text(read.problems());
}
bool rates_say(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("every shipped file of failures is read, and each of its numbers has a source") {
  REQUIRE(hw_profiles::failure_names().size() >= 3);
  for (const std::string& name : hw_profiles::failure_names()) {
    INFO(name);
    const auto rates = hw_profiles::find_failures(name);
    REQUIRE(rates.ok());
    CHECK(rates->id == name);
    CHECK(!rates->about.empty());
    for (const hw_profiles::Sourced& s : rates->sources) CHECK(!s.source.empty());
    CHECK(rates->sources.size() >= rates->rates.size());
  }
  const auto unknown = hw_profiles::find_failures("llama3-405");
  CHECK(rates_say(core::to_text(unknown.problems()), "llama3-405b"));
}

TEST_CASE("the rates of Llama 3 add up to its 419 interruptions in 54 days on 16,384 GPUs") {
  const FailureRates rates = hw_profiles::find_failures("llama3-405b").value();
  double all = 0;
  for (const hw_profiles::FailureRate& r : rates.rates) {
    const double parts = r.what == Failing::gpu        ? 16'384
                         : r.what == Failing::software ? 1
                                                       : 2'048;
    all += 54 * 86'400 / r.between.value() * parts;
  }
  CHECK(all == Approx(419).epsilon(1e-3));
}

TEST_CASE("a file of failures that cannot be meant is answered with what to write") {
  CHECK(rates_said(R"({"kind": "gpu", "between": ["5 h", "test"]})") == "nothing");
  CHECK(rates_say(rates_said(R"({"kind": "disk", "between": ["5 h", "test"]})"), "gpu"));
  CHECK(rates_say(rates_said(R"({"kind": "gpu", "between": "5 h"})"), "source"));
  CHECK(rates_say(rates_said(R"({"kind": "gpu", "between": ["5 hours", "test"]})"), "h"));
  CHECK(rates_say(rates_said(R"({"kind": "gpu", "between": ["0", "test"]})"), "above 0"));
  CHECK(rates_say(rates_said(R"({"kind": "switch", "between": ["5 h", "test"]})"), "nodes"));
  CHECK(rates_say(
      rates_said(R"({"kind": "switch", "nodes": ["0", "x"], "between": ["5 h", "x"]})"), "nodes"));
  CHECK(rates_say(rates_said(R"({"kind": "gpu", "between": ["5 h", "a"]},
                     {"kind": "gpu", "between": ["6 h", "a"]})"), "twice"));
  CHECK(rates_say(rates_said(""), "at least one"));
  CHECK(rates_say(rates_said(R"({"kind": "gpu", "between": ["5 h", "a"], "repairs": 1})"),
                  "repair"));
}
