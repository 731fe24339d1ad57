// Python's pickles of plain data. The bytes are those of pickle.dumps, protocol 4, by hand.
#include "reports/logs/pickle.hpp"

#include <string>
#include <vector>

#include "reports/logs/memory_snapshot.hpp"
#include "tests/catch.hpp"

using reports::logs::Pickle;
using Kind = Pickle::Kind;

namespace {

// Bytes after the mark of the protocol; NUL included.
template <std::size_t kSize>
std::string pickled(const char (&operations)[kSize]) {
  return "\x80\x04" + std::string(operations, kSize - 1);
}

std::vector<Pickle::Value> items(const Pickle& pickle, Pickle::Value container) {
  std::vector<Pickle::Value> all;
  pickle.each(container, [&](Pickle::Value value) { all.push_back(value); });
  return all;
}

std::string refusal(const std::string& text) {
  const auto pickle = Pickle::read(text, "x");
  REQUIRE_FALSE(pickle.ok());
  return core::to_text(pickle.problems());
}

}  // namespace

TEST_CASE("plain data of a pickle is read") {
  // {"ab": [1, 300, -2, 70000, True, None, (7, 8)], "c": 1 << 40}, with a frame and memos.
  const std::string text = pickled(
      "\x95\x2a\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x02"
      "ab\x94]\x94(K\x01M,\x01J\xfe\xff\xff\xffJp\x11\x01\x00\x88NK\x07K\x08\x86\x94"
      "e\x8c\x01"
      "c\x94\x8a\x06\x00\x00\x00\x00\x00\x01u.");
  const auto pickle = Pickle::read(text, "x");
  if (!pickle.ok()) FAIL(core::to_text(pickle.problems()));
  const auto list = items(*pickle, pickle->find(pickle->root(), "ab"));
  REQUIRE(list.size() == 7);
  CHECK(pickle->integer(list[0]) == 1);
  CHECK(pickle->integer(list[1]) == 300);
  CHECK(pickle->integer(list[2]) == -2);
  CHECK(pickle->integer(list[3]) == 70000);
  CHECK(list[4].kind() == Kind::boolean);
  CHECK(list[5].kind() == Kind::none);
  CHECK(pickle->integer(items(*pickle, list[6]).at(1)) == 8);
  CHECK(pickle->integer(pickle->find(pickle->root(), "c")) == std::int64_t{1} << 40);
  CHECK(pickle->find(pickle->root(), "d").kind() == Kind::none);
  CHECK(pickle->find(list[0], "ab").kind() == Kind::none);
  CHECK(items(*pickle, list[0]).empty());
}

TEST_CASE("integers of a pickle keep their sign, and larger ones are no integers here") {
  const auto value = [](const std::string& text) {
    return Pickle::read(text, "x")->integer(Pickle::read(text, "x")->root());
  };
  CHECK(value(pickled("\x8a\x00.")) == 0);
  CHECK(value(pickled("\x8a\x01\xff.")) == -1);
  CHECK(value(pickled("\x8a\x07\xff\xff\xff\xff\xff\xff\x7f.")) == (std::int64_t{1} << 55) - 1);
  CHECK(value(pickled("\x8a\x07\x00\x00\x00\x00\x00\x00\x80.")) == -(std::int64_t{1} << 55));
  CHECK_FALSE(value(pickled("\x8a\x08\x01\x00\x00\x00\x00\x00\x00\x00.")));
  CHECK_FALSE(value(pickled("G\x00\x00\x00\x00\x00\x00\x00\x00.")));
}

TEST_CASE("a container may grow by parts, be named twice and hold itself") {
  // a = [1]; a.append(a); a.append(2)
  const auto pickle = Pickle::read(pickled("]\x94K\x01"
                                           "ah\x00"
                                           "aK\x02"
                                           "a."), "x");
  REQUIRE(pickle.ok());
  const auto all = items(*pickle, pickle->root());
  REQUIRE(all.size() == 3);
  CHECK(items(*pickle, all[1]).size() == 3);
  CHECK(pickle->integer(all[2]) == 2);
}

TEST_CASE("nothing of a pickle is run, and no damage is passed over") {
  CHECK(refusal(pickled("cos\nsystem\n\x8c\x02id\x85R.")).find("nothing was run") !=
        std::string::npos);
  CHECK(refusal(pickled("K\x01")).find("its end") != std::string::npos);
  CHECK(refusal(pickled("\x8c\x09"
                        "abc.")).find("its end") != std::string::npos);
  CHECK(refusal(pickled("\x8d\xff\xff\xff\xff\xff\xff\xff\xff.")).find("2^62") !=
        std::string::npos);
  CHECK(refusal(pickled(".")).find("expected a value") != std::string::npos);
  CHECK(refusal(pickled("K\x01(a.")).find("fewer") != std::string::npos);
  CHECK(refusal(pickled("e.")).find("a mark") != std::string::npos);
  CHECK(refusal(pickled("h\x00.")).find("one of 0 values") != std::string::npos);
  CHECK(refusal(pickled("}(K\x01u.")).find("a key alone") != std::string::npos);
  CHECK(refusal(pickled("]K\x01K\x02s.")).find("a dictionary") != std::string::npos);
  CHECK(refusal(pickled("Nq\x05.")).find("expected 0, found 5") != std::string::npos);
  CHECK(refusal("\x80\x09.").find("protocol 2 to 5") != std::string::npos);
  const std::string bomb = "\x80\x04" + std::string(1 << 20, ']') + ".";
  CHECK(refusal(bomb).find("in memory") != std::string::npos);
}
