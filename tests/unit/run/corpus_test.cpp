#include "exec/interpret/corpus.hpp"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <vector>

#include "tests/catch.hpp"

using namespace exec;
namespace fs = std::filesystem;

namespace {

// A file of the test's own, removed at its end.
class File {
 public:
  explicit File(const std::string& bytes) {
    std::string name = (fs::temp_directory_path() / "planner-corpus-XXXXXX").string();
    const int fd = ::mkstemp(name.data());
    REQUIRE(fd >= 0);
    ::close(fd);
    path_ = name;
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() { fs::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

template <class Number>
std::string bytes_of(const std::vector<Number>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Number)};
}

std::string header(std::int32_t magic, std::int32_t version, std::int32_t tokens) {
  std::vector<std::int32_t> words(256, 0);
  words[0] = magic, words[1] = version, words[2] = tokens;
  return bytes_of(words);
}

std::vector<std::int32_t> window(const Corpus& corpus, std::uint64_t from, std::size_t n) {
  std::vector<std::int32_t> out(n);
  corpus.read(from, out);
  return out;
}

using Tokens = std::vector<std::int32_t>;

}  // namespace

TEST_CASE("tokens of one, two and four bytes are the same corpus") {
  Tokens tokens(700'000);  // more than one piece
  for (std::size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<std::int32_t>(i * i % 251);
  std::string text;
  for (const std::int32_t t : tokens) text += static_cast<char>(t);
  const auto count = static_cast<std::int32_t>(tokens.size());
  const File of_1(text),
      of_2(header(20240520, 1, count) +
           bytes_of(std::vector<std::uint16_t>(tokens.begin(), tokens.end()))),
      of_4(header(20240801, 7, count) + bytes_of(tokens));
  std::uint64_t sum = 0xcbf29ce484222325ULL;
  for (const std::int32_t t : tokens)
    sum = (sum ^ static_cast<std::uint32_t>(t)) * 0x100000001b3ULL;
  for (const File* file : {&of_1, &of_2, &of_4}) {
    const auto corpus = Corpus::open(file->path(), 256);
    REQUIRE(corpus.ok());
    CHECK(corpus->tokens() == tokens.size());
    CHECK(corpus->checksum() == sum);
    CHECK(window(*corpus, 300'000, 5) ==
          Tokens(tokens.begin() + 300'000, tokens.begin() + 300'005));
    CHECK(window(*corpus, tokens.size() - 2, 4) ==
          Tokens{tokens[tokens.size() - 2], tokens.back(), tokens[0], tokens[1]});
    CHECK_FALSE(Corpus::open(file->path(), 200).ok());
  }
}

TEST_CASE("a token outside the vocabulary is named by its first place") {
  const File file(header(20240801, 7, 4) + bytes_of(Tokens{3, 9, -1, 9}));
  const auto corpus = Corpus::open(file.path(), 10);
  REQUIRE_FALSE(corpus.ok());
  CHECK(
      core::to_text(corpus.problems()).find("token 2: expected tokens below the vocabulary's 10") !=
      std::string::npos);
}

TEST_CASE("a corpus that is cut while a run reads it ends the run with a reason") {
  const File file(std::string(100, 'a'));
  const auto corpus = Corpus::open(file.path(), 256);
  REQUIRE(corpus.ok());
  fs::resize_file(file.path(), 50);
  CHECK(window(*corpus, 45, 5) == Tokens(5, 'a'));
  CHECK_THROWS_AS(window(*corpus, 48, 5), std::runtime_error);
}
