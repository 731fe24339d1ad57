// A Chakra trace of one rank as a log of one step.
#include "reports/logs/execution_trace.hpp"

#include <cmath>
#include <vector>

#include "tests/catch.hpp"

using namespace reports::logs;

namespace {

// A protobuf message, preceded by its length, as the files have them.
std::string framed(const std::string& message) {
  return std::string(1, static_cast<char>(message.size())) + message;
}
std::string varint(int field, std::uint64_t value) {
  std::string text(1, static_cast<char>(field << 3));
  for (; value >= 128; value >>= 7) text += static_cast<char>((value & 127) | 128);
  return text + static_cast<char>(value);
}
// on: ids of nodes that it waits for.
std::string node(std::uint64_t id, int type, std::uint64_t micros,
                 const std::vector<std::uint64_t>& on = {}) {
  std::string text = varint(1, id) + varint(3, static_cast<std::uint64_t>(type));
  for (const std::uint64_t other : on) text += varint(5, other);
  if (micros > 0) text += varint(7, micros);
  return framed(text);
}

constexpr int kComp = 4, kReceive = 6;

}  // namespace

TEST_CASE("a rank's Chakra trace is a step: computation, transfers, and what is exposed of them") {
  // A receive takes 50 us. Computation runs during its first 30 us, and for 20 us after it.
  const std::string text = framed("") + node(1, kComp, 30) + node(2, kReceive, 50) +
                           node(3, kComp, 20, {1, 2});
  const auto log = read_log(text, "rank.0.et");
  REQUIRE(log.ok());
  CHECK(log->format == kExecutionTrace);
  REQUIRE(log->steps.size() == 1);
  CHECK(std::abs(log->steps[0].value - 70e-6) < 1e-12);
  REQUIRE(log->device);
  CHECK(std::abs(log->device->compute.value() - 50e-6) < 1e-12);
  CHECK(std::abs(log->device->communication.value() - 50e-6) < 1e-12);
  CHECK(std::abs(log->device->exposed_communication.value() - 20e-6) < 1e-12);
}

TEST_CASE("a Chakra trace without times, or that is none, is refused") {
  const auto none = read_log(framed("") + node(1, kReceive, 0), "rank.0.et");
  REQUIRE_FALSE(none.ok());
  CHECK(none.problems().front().found == "none");
  CHECK_FALSE(read_log("iteration 1", "rank.0.et").ok());
}
