// The encoding byte by byte.
#include "core/protobuf.hpp"

#include "tests/catch.hpp"

TEST_CASE("messages are encoded as protobuf's own documentation has them") {
  core::ProtoMessage m;
  m.number(1, 150);
  CHECK(m.bytes() == "\x08\x96\x01");
  core::ProtoMessage s;
  s.text(2, "testing");
  CHECK(s.bytes() == "\x12\x07testing");
  core::ProtoMessage nested;
  nested.message(3, m);
  CHECK(nested.bytes() == "\x1a\x03\x08\x96\x01");
  core::ProtoMessage high;           // field 29 needs two bytes: 29 << 3 | 2 = 234 = 0xea 0x01
  high.text(29, "x");
  CHECK(high.bytes() == "\xea\x01\x01x");
  core::ProtoMessage negative;       // -1: nine bytes of seven ones, then the last bit
  negative.number(1, static_cast<std::uint64_t>(-1));
  CHECK(negative.bytes() == "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
  std::string sequence;
  m.append_delimited(sequence);
  CHECK(sequence == "\x03\x08\x96\x01");
  core::ProtoMessage fixed;            // 8 << 3 | 1 = 65, then the lowest byte first
  fixed.fixed(8, 0x0102);
  CHECK(fixed.bytes() == std::string("\x41\x02\x01\0\0\0\0\0\0", 9));
}

TEST_CASE("a reader gives back what a message was made of, and says where bytes are missing") {
  core::ProtoMessage m;
  m.number(1, 300);
  m.fixed(2, 77);
  m.text(3, "seven");
  core::ProtoReader r(m.bytes());
  REQUIRE(r.next());
  CHECK((r.field() == 1 && r.wire() == core::Wire::varint && r.number() == 300));
  REQUIRE(r.next());
  CHECK((r.field() == 2 && r.wire() == core::Wire::fixed64 && r.number() == 77));
  REQUIRE(r.next());
  CHECK((r.field() == 3 && r.text() == "seven"));
  CHECK(!r.next());
  CHECK(!r.fault());

  const std::string cut = m.bytes().substr(0, 8);  // within the fixed64, which begins at 3
  core::ProtoReader damaged(cut);
  CHECK(damaged.next());
  CHECK(!damaged.next());
  REQUIRE(damaged.fault());
  CHECK(damaged.fault()->offset == 3);
}
