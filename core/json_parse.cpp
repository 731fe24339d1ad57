#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "core/json.hpp"

namespace core {
namespace {

using nlohmann::json;

// A value takes up to 24 times the memory of its text, "0,": so many of them take 250 MiB.
constexpr std::size_t kMostValues = std::size_t{2} << 20;

struct Place {
  int line = 1;
  int column = 1;
};

// Line and column of rising offsets, in one pass over the text.
class PlaceFinder {
 public:
  explicit PlaceFinder(std::string_view text) : text_(text) {}

  Place at(std::size_t offset) {
    for (offset = std::min(offset, text_.size()); offset_ < offset; ++offset_) {
      const auto byte = static_cast<unsigned char>(text_[offset_]);
      if (byte == '\n')
        place_ = {place_.line + 1, 1};
      else if ((byte & 0xC0) != 0x80)  // bytes inside a character do not count
        ++place_.column;
    }
    return place_;
  }

 private:
  std::string_view text_;
  std::size_t offset_ = 0;
  Place place_;
};

// An input iterator that tells how far the parser has read.
struct CountingIterator {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  const char* at = nullptr;
  const char** reached = nullptr;

  const char& operator*() const { return *at; }
  CountingIterator& operator++() {
    *reached = ++at;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const CountingIterator& a, const CountingIterator& b) {
    return a.at == b.at;
  }
  friend bool operator!=(const CountingIterator& a, const CountingIterator& b) {
    return a.at != b.at;
  }
};

// Builds the value from nlohmann's events. A frame is a container still open.
class Builder : public nlohmann::json_sax<json> {
 public:
  Builder(std::string_view text, std::string_view source)
      : text_(text), source_(source), places_(text), reached_(text.data()) {
    if (text_.substr(0, 3) == "\xEF\xBB\xBF") token_ = 3;  // the byte order mark is no value
  }

  CountingIterator begin() { return {text_.data(), &reached_}; }
  CountingIterator end() { return {text_.data() + text_.size(), &reached_}; }
  Json take_root() { return std::move(root_); }
  Problem take_problem() { return std::move(problem_); }

  bool null() override { return add(Json()); }
  bool boolean(bool value) override { return add(Json(value)); }
  bool number_integer(std::int64_t value) override { return add(Json(value)); }
  bool number_unsigned(std::uint64_t value) override { return add(Json(value)); }
  bool number_float(double value, const std::string&) override { return add(Json(value)); }
  bool string(std::string& value) override { return add(Json(std::move(value))); }
  bool binary(json::binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(); }
  bool start_array(std::size_t) override { return open(); }
  bool end_array() override { return close(Json::from_items(std::move(frames_.back().items))); }

  bool key(std::string& name) override {
    frames_.back().key = std::move(name);
    frames_.back().keyed = true;
    token_ = reached();
    return true;
  }

  bool end_object() override {
    std::vector<Json::Member>& members = frames_.back().members;
    std::vector<const Json::Member*> sorted;
    for (const Json::Member& m : members) sorted.push_back(&m);
    std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) {
      return a->key != b->key ? a->key < b->key : a < b;
    });
    const auto twice = std::adjacent_find(sorted.begin(), sorted.end(),
                                          [](auto* a, auto* b) { return a->key == b->key; });
    if (twice == sorted.end()) return close(Json::from_members(std::move(members)));
    const Json& again = (*std::next(twice))->value;
    return fail({again.line(), again.column()}, "key \"" + (*twice)->key + "\" once per object",
                "it again (first on line " + std::to_string((*twice)->value.line()) + ")",
                "remove one of the two");
  }

  bool parse_error(std::size_t position, const std::string& token,
                   const nlohmann::detail::exception& error) override {
    return syntax_error(position, token, error.what());
  }

 private:
  struct Frame {
    Place place;
    std::vector<Json> items;            // of an array
    std::vector<Json::Member> members;  // of an object
    bool keyed = false;                 // a key waits for its value
    std::string key;
  };

  std::size_t reached() const { return static_cast<std::size_t>(reached_ - text_.data()); }

  // Tokens between the last value and this one are blanks, ',' and ':' alone. The lexer may have
  // read one character past a number, which is then one of those, or closes the container.
  Place place_of_value() {
    token_ = std::min(text_.find_first_not_of(" \t\r\n,:", token_), text_.size());
    return places_.at(token_);
  }

  bool add(Json value) {
    const Place place = place_of_value();
    if (++values_ > kMostValues)
      return fail(place, "at most " + std::to_string(kMostValues) + " values", "more",
                  "divide the file");
    value.set_place(place.line, place.column);
    token_ = reached();
    attach(std::move(value));
    return true;
  }

  void attach(Json value) {
    if (frames_.empty()) {
      root_ = std::move(value);
      return;
    }
    Frame& frame = frames_.back();
    if (std::exchange(frame.keyed, false))
      frame.members.push_back({std::move(frame.key), std::move(value)});
    else
      frame.items.push_back(std::move(value));
  }

  bool open() {
    const Place place = place_of_value();
    ++values_;
    if (frames_.size() == kMaxJsonDepth)
      return fail(place, "at most " + std::to_string(kMaxJsonDepth) + " levels of nesting", "more",
                  "");
    frames_.emplace_back().place = place;
    token_ = reached();
    return true;
  }

  bool close(Json done) {
    done.set_place(frames_.back().place.line, frames_.back().place.column);
    frames_.pop_back();
    token_ = reached();
    attach(std::move(done));
    return true;
  }

  bool fail(Place place, std::string expected, std::string found, std::string fix) {
    problem_ = {source_ + ":" + std::to_string(place.line) + ":" + std::to_string(place.column),
                std::move(expected), std::move(found), std::move(fix)};
    return false;
  }

  bool syntax_error(std::size_t position, const std::string& token, std::string_view message);

  std::string_view text_;
  std::string source_;
  PlaceFinder places_;
  const char* reached_;
  std::size_t token_ = 0;  // where the next token can begin
  std::size_t values_ = 0;
  std::vector<Frame> frames_;
  Json root_;
  Problem problem_;
};

std::string_view between(std::string_view text, std::string_view from, std::string_view to) {
  const std::size_t begin = text.find(from);
  if (begin == std::string_view::npos) return {};
  text.remove_prefix(begin + from.size());
  return text.substr(0, text.find(to));
}

// On one line, and without what a terminal would act on.
std::string printable(std::string_view text) {
  std::string result = dump(Json(text));
  return result.substr(1, result.size() - 2);
}

// nlohmann words it "... syntax error while parsing CONTEXT - unexpected TOKEN; expected TOKEN", or
// "... - LEXER MESSAGE; last read: 'TEXT'; expected TOKEN", or, for a number beyond double,
// "... number overflow parsing 'TEXT'".
bool Builder::syntax_error(std::size_t position, const std::string& token,
                           std::string_view message) {
  // A fresh finder: the error may lie before the place of the last value asked for.
  const auto place = [&](std::size_t offset) { return PlaceFinder(text_).at(offset); };
  if (message.find("number overflow") != std::string_view::npos)
    return fail(place_of_value(), "a number that fits a double", token, "");
  if (text_.empty())  // nlohmann 3.11 words it in its own way
    return fail(place(0), "'[', '{', or a literal", "the end of the text", "");
  const std::string context(between(message, "while parsing ", " - "));
  std::string expected(between(message, "; expected ", "\n"));
  if (expected.empty()) expected = context.empty() ? "JSON" : "a valid " + context;
  const std::string_view unexpected = between(message, " - unexpected ", "; expected ");
  const std::size_t end = std::min(position, text_.size());
  const std::size_t last = end == 0 ? 0 : end - 1;
  if (unexpected == "end of input")
    return fail(place(text_.size()), expected, "the end of the text", "");
  if (unexpected.starts_with('\'')) return fail(place(last), expected, std::string(unexpected), "");
  // nlohmann's own token text may begin before the token: read it from the source instead.
  const std::size_t start = std::min(text_.find_first_not_of(" \t\r\n,:", token_), last);
  const std::string found = printable(text_.substr(start, std::min<std::size_t>(end - start, 40)));
  if (!unexpected.empty()) return fail(place(start), expected, found, "");
  return fail(place(last), expected, found, std::string(between(message, " - ", "; last read")));
}

}  // namespace

Result<Json> parse_json(std::string_view text, std::string_view source_name) {
  if (text.size() > kMaxJsonBytes)
    return Problem{std::string(source_name), "at most 64 MiB of JSON",
                   std::to_string(text.size()) + " bytes", ""};
  Builder builder(text, source_name);
  if (!json::sax_parse(builder.begin(), builder.end(), &builder)) return builder.take_problem();
  return builder.take_root();
}

}  // namespace core
