#include "core/read_number.hpp"

#include <cstdint>
#include <string_view>

#include "tests/catch.hpp"

using core::number_in;
using core::read_double;

TEST_CASE("a text is a number or none: no blank, no plus, no hexadecimal digit, nothing after it") {
  CHECK(number_in<std::int64_t>("-12") == -12);
  CHECK(number_in<double>("1e3") == 1000.0);
  CHECK(number_in<double>("-0.5") == -0.5);
  CHECK(number_in<double>(".5") == 0.5);
  for (const std::string_view text : {"", " 1", "1 ", "+1", "0x10", "1e", "1.5.2", "one", "-"}) {
    INFO(text);
    CHECK(!number_in<double>(text));
    CHECK(!number_in<std::int64_t>(text));
  }
  CHECK(!number_in<std::int64_t>("1.5"));
  CHECK(!number_in<std::int64_t>("9223372036854775808"));
  CHECK(!number_in<double>("1e999"));
}

TEST_CASE("a number at the beginning of a text ends where its letters end") {
  const std::string_view text = "80.5GiB";
  double value = 0;
  const auto read = read_double(text.data(), text.data() + text.size(), value);
  CHECK(value == 80.5);
  CHECK(read.ptr == text.data() + 4);
}
