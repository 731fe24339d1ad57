#include <sys/socket.h>

#include <array>

#include "exec/communicator/frame.hpp"
#include "exec/communicator/tcp/greeting.hpp"
#include "exec/communicator/tcp/link.hpp"
#include "tests/catch.hpp"

using namespace exec::tcp;

namespace {

const Join kJoin{Purpose::data, 3, 4, "1.0", "digest", "machine", "job", 4711, "session"};

struct Pair {
  Pair() {
    std::array<int, 2> ends{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()) == 0);
    here = Socket(ends[0]);
    there = Socket(ends[1]);
  }
  Socket here, there;
};

}  // namespace

TEST_CASE("what a guest says of itself is read as it was written, and nothing of it cut short") {
  const std::string bytes = encode(kJoin);
  const auto read = decode_join(bytes);
  REQUIRE(read);
  CHECK(encode(*read) == bytes);
  CHECK(read->rank == 3);
  CHECK(read->session == "session");
  for (std::size_t size = 0; size < bytes.size(); ++size)
    CHECK_FALSE(decode_join(std::string_view(bytes).substr(0, size)));
  CHECK_FALSE(decode_join(bytes + "x"));
}

TEST_CASE("a guest's numbers and lengths are held to what they can be") {
  for (const auto& spoil : std::vector<std::function<void(Join&)>>{
           [](Join& j) { j.rank = -1; }, [](Join& j) { j.size = 0; },
           [](Join& j) { j.port = 65536; }, [](Join& j) { j.purpose = static_cast<Purpose>(2); }}) {
    Join join = kJoin;
    spoil(join);
    CHECK_FALSE(decode_join(encode(join)));
  }
  Join join = kJoin;
  join.version = std::string(5000, 'x');  // is cut where it is written
  CHECK(decode_join(encode(join))->version.size() == 512);
  std::string bytes = encode(kJoin);
  bytes.replace(16, 4, "\xff\xff\xff\x7f");  // the length of the first text
  CHECK_FALSE(decode_join(bytes));
}

TEST_CASE("a table of ranks is read as it was written, and nothing of it cut short") {
  const Table table{"session", {{"10.0.0.1", 1, "a"}, {"fe80::1", 65535, "b"}}};
  const std::string bytes = encode(table);
  REQUIRE(decode_table(bytes));
  CHECK(encode(*decode_table(bytes)) == bytes);
  for (std::size_t size = 0; size < bytes.size(); ++size)
    CHECK_FALSE(decode_table(std::string_view(bytes).substr(0, size)));
  std::string many = bytes;
  many.replace(4 + 7, 4, "\xff\xff\xff\xff");  // how many there are
  CHECK_FALSE(decode_table(many));
}

TEST_CASE("the head of a packet bounds its body, and knows strangers") {
  const std::string bytes = encode(PacketKind::join, std::string(kMostGreeting, 'x'));
  CHECK(decode_head(bytes, kMostGreeting)->size == kMostGreeting);
  CHECK_FALSE(decode_head(bytes, kMostGreeting - 1));
  std::string other = bytes;
  other[0] = 'X';
  CHECK_FALSE(decode_head(other, kMostGreeting));
}

TEST_CASE("a proof holds for its secret, role, nonces and words alone") {
  const Nonce a = random_nonce(), b = random_nonce();
  CHECK(a != b);
  const std::string good = "body" + proof("secret", Role::guest, a, b, "body");
  CHECK(proven("secret", Role::guest, a, b, good) == "body");
  CHECK_FALSE(proven("Secret", Role::guest, a, b, good));
  CHECK_FALSE(proven("secret", Role::host, a, b, good));
  CHECK_FALSE(proven("secret", Role::guest, b, a, good));
  CHECK_FALSE(proven("secret", Role::guest, a, a, good));
  CHECK_FALSE(proven("secret", Role::guest, a, b, "Body" + good.substr(4)));
  for (std::size_t size = 0; size < 32; ++size)
    CHECK_FALSE(proven("secret", Role::guest, a, b, good.substr(0, size)));
  CHECK(good.find("secret") == std::string::npos);
}

TEST_CASE("records arrive whole and in order, however the socket cuts them") {
  Pair pair;
  exec::Spares spares;
  const int small = 4096;
  ::setsockopt(pair.here.get(), SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
  Link out(std::move(pair.here), spares), in(std::move(pair.there), spares);
  std::vector<std::size_t> sizes{0, 1, 100000, 3, 70000, 0};
  std::vector<std::string> got;
  const auto take = [&](Record&& r) {
    got.emplace_back(reinterpret_cast<const char*>(r.body.bytes.get()), r.body.size);
  };
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    exec::Message m = spares.blank(sizes[i]);
    std::fill_n(m.bytes.get(), sizes[i], static_cast<std::byte>('a' + i));
    out.send(RecordKind::data, std::move(m));
  }
  CHECK(out.has_unsent());
  while (got.size() < sizes.size()) {
    REQUIRE(in.receive(take));
    out.flush();
  }
  for (std::size_t i = 0; i < sizes.size(); ++i)
    CHECK(got[i] == std::string(sizes[i], static_cast<char>('a' + i)));
  CHECK_FALSE(out.has_unsent());
}

TEST_CASE("a record that claims more than its kind may, or is of no kind, is not taken") {
  for (const RecordHead& head :
       {RecordHead{RecordKind::data, 0, most_bytes(RecordKind::data) + 1},
        RecordHead{RecordKind::beat, 0, 1}, RecordHead{RecordKind::bye, 0, 1},
        RecordHead{RecordKind::verdict, 0, 1 << 20},
        RecordHead{static_cast<RecordKind>(0), 0, 0}, RecordHead{static_cast<RecordKind>(8), 0, 0},
        RecordHead{RecordKind::text, 0, ~std::uint64_t{0}}}) {
    Pair pair;
    exec::Spares spares;
    REQUIRE(::send(pair.here.get(), &head, sizeof head, 0) == sizeof head);
    Link in(std::move(pair.there), spares);
    CHECK_THROWS_AS(in.receive([](Record&&) {}), BadRecord);
  }
}

TEST_CASE("a frame with a field that no frame has is not sound") {
  exec::Frame good = exec::frame_of(1, 0, {}, {});
  const auto sound = [](const exec::Frame& frame) {
    exec::Message m;
    m.bytes = std::make_unique<std::byte[]>(sizeof frame);
    m.capacity = sizeof frame;
    exec::append(m, frame);
    return exec::is_sound(m);
  };
  CHECK(sound(good));
  CHECK_FALSE(exec::is_sound({}));
  for (const int at : {44, 45, 46, 47, 48, 49}) {
    exec::Frame bad = good;
    reinterpret_cast<std::uint8_t*>(&bad)[at] = 0xff;
    CHECK_FALSE(sound(bad));
  }
}
