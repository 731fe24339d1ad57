#include "core/parse_units.hpp"

#include "tests/catch.hpp"

using namespace core;

namespace {

template <class T>
std::string refusal(const Result<T>& result) {
  REQUIRE(!result.ok());
  return to_text(result.problems()[0]);
}

}  // namespace

TEST_CASE("sizes tell powers of 1000 from powers of 1024") {
  CHECK(parse_bytes("24GiB", "x").value() == gib(24));
  CHECK(parse_bytes("24GB", "x").value() == gigabytes(24));
  CHECK(parse_bytes("25 MiB", "x").value() == mib(25));
  CHECK(parse_bytes("1.5KiB", "x").value() == Bytes(1536));
  CHECK(parse_bytes("0.1kB", "x").value() == Bytes(100));
  CHECK(parse_bytes("4096", "x").value() == Bytes(4096));
  CHECK(parse_bytes("0", "x").value() == Bytes(0));
  CHECK(parse_bytes("9223372036854775807B", "x").value() == Bytes(INT64_MAX));
}

TEST_CASE("sizes that are none are refused with what was meant") {
  const std::string expected = "--x: expected a size such as 24GiB, 25MB or 4096, found ";
  CHECK(refusal(parse_bytes("24gib", "--x")) == expected + "\"24gib\"; did you mean GiB?");
  CHECK(refusal(parse_bytes("24G", "--x")) == expected + "\"24G\"; did you mean GB or GiB?");
  CHECK(refusal(parse_bytes("1.5B", "--x")) ==
        expected + "\"1.5B\"; it does not come to a whole number");
  CHECK(refusal(parse_bytes("-1B", "--x")) == expected + "\"-1B\"; it cannot be negative");
  CHECK(refusal(parse_bytes("8EiB", "--x")) == expected + "\"8EiB\"; did you mean KiB?");
  CHECK(refusal(parse_bytes("8192PiB", "--x")) == expected + "\"8192PiB\"; it must be below 2^63");
  CHECK(refusal(parse_bytes("8192.5PiB", "--x")) ==
        expected + "\"8192.5PiB\"; it must be below 2^63");
  for (const char* text : {"", "GiB", "nan", "inf", "1e999B", "1 2B", "0x10", "1,5GiB"})
    CHECK(!parse_bytes(text, "--x").ok());
}

TEST_CASE("times take their unit, and only zero goes without") {
  CHECK(parse_duration("50us", "x").value() == Seconds(50e-6));
  CHECK(parse_duration("1.5ms", "x").value() == Seconds(1.5e-3));
  CHECK(parse_duration("2h", "x").value() == Seconds(7200));
  CHECK(parse_duration("0", "x").value() == Seconds(0));
  CHECK(!parse_duration("50", "x").ok());
  CHECK(!parse_duration("-1s", "x").ok());
  CHECK(refusal(parse_duration("5sec", "x")).find("did you mean") != std::string::npos);
}

TEST_CASE("counts take K, M, B and T") {
  CHECK(parse_count("500B", "x").value() == 500'000'000'000);
  CHECK(parse_count("1.5T", "x").value() == 1'500'000'000'000);
  CHECK(parse_count("300000", "x").value() == 300'000);
  CHECK(parse_count("1e6", "x").value() == 1'000'000);
  CHECK(refusal(parse_count("3b", "--tokens")) ==
        "--tokens: expected a count such as 500B, 1.5T or 4096, found \"3b\"; did you mean B?");
  CHECK(!parse_count("0.5", "x").ok());
}

TEST_CASE("bandwidths tell bits from bytes") {
  // 400 Gbit/s / 8 bit = 50 GB/s
  CHECK(parse_bandwidth("400Gbps", "x").value() == BytesPerSecond(50e9));
  CHECK(parse_bandwidth("50GB/s", "x").value() == BytesPerSecond(50e9));
  CHECK(parse_bandwidth("1GiB/s", "x").value() == BytesPerSecond(1073741824.0));
  CHECK(!parse_bandwidth("400", "x").ok());
  CHECK(!parse_bandwidth("400GB", "x").ok());
}

TEST_CASE("quantities are printed with three digits in the unit that keeps them short") {
  CHECK(to_text(Bytes(512)) == "512 B");
  CHECK(to_text(Bytes(1023)) == "1023 B");
  CHECK(to_text(Bytes(1024)) == "1.00 KiB");
  CHECK(to_text(Bytes(13'207'024'435)) == "12.3 GiB");  // 13207024435 / 2^30 = 12.30
  CHECK(to_text(mib(1023)) == "1023 MiB");
  CHECK(to_text(Bytes(-1536)) == "-1.50 KiB");
  CHECK(to_text(Seconds(1.2449e-3)) == "1.24 ms");
  CHECK(to_text(Seconds(0)) == "0 s");
  CHECK(to_text(Seconds(0.99999)) == "1.00 s");
  CHECK(to_text(Seconds(90)) == "1.50 min");
  CHECK(to_text(Seconds(1e-13)) == "0.10 ps");
  CHECK(to_text(Picoseconds(1'500'000)) == "1.50 us");
  CHECK(to_text(BytesPerSecond(50e9)) == "50.0 GB/s");
  CHECK(count_text(1'557'611'200) == "1.56 B");
  CHECK(count_text(9'999) == "9999");
  CHECK(count_text(50'257) == "50.3 K");
  CHECK(count_text(999'999'999) == "1.00 B");
}

TEST_CASE("whole bytes read back exactly at every magnitude") {
  for (std::int64_t n = 1; n < std::int64_t{1} << 60; n = n * 3 + 1) {
    const auto again = parse_bytes(std::to_string(n) + "B", "x");
    REQUIRE(again.ok());
    CHECK(*again == Bytes(n));
  }
}
