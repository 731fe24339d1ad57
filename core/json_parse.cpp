#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "core/json.hpp"

namespace core {
namespace {

using nlohmann::json;

constexpr std::size_t kMostValues = std::size_t{2} << 20;

// What the heap takes for a block: its size and 8 bytes, in steps of 16, from 32 on (glibc).
constexpr std::size_t heap(std::size_t bytes) {
  return std::max<std::size_t>(32, (bytes + 8 + 15) / 16 * 16);
}

// A text's characters, where they do not fit the string itself (libstdc++: up to 15).
std::size_t heap_of(const std::string& text) {
  return text.size() < 16 ? 0 : heap(text.size() + 1);
}

// The number of values in each container of a text, in the order in which they open: what lets a
// container take its memory once. A count may be too high where the text is no JSON.
std::vector<std::uint32_t> container_sizes(std::string_view text) {
  std::vector<std::uint32_t> sizes;
  std::vector<std::size_t> open;
  bool quoted = false;
  bool empty = false;  // nothing but blanks since the innermost container opened
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      if (c == '"') quoted = false;
      continue;
    }
    if (c == ' ' || c == '\n' || c == '\t' || c == '\r') continue;
    if (c == ']' || c == '}') {
      if (!open.empty() && !empty) ++sizes[open.back()];
      if (!open.empty()) open.pop_back();
      empty = false;
      continue;
    }
    if (c == ',' && !open.empty()) ++sizes[open.back()];
    empty = c == '[' || c == '{';
    if (empty) {
      if (open.size() == kMaxJsonDepth || sizes.size() == kMostValues) break;
      open.push_back(sizes.size());
      sizes.push_back(0);
    }
    quoted = c == '"';
  }
  return sizes;
}

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
      : text_(text),
        source_(source),
        places_(text),
        reached_(text.data()),
        sizes_(container_sizes(text)),
        most_memory_(std::max(kMostSmallJsonMemory, kMostJsonMemory * text.size())) {
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
  bool string(std::string& value) override {
    memory_ += heap(sizeof(std::string)) + heap_of(value);
    return add(Json(std::move(value)));
  }
  bool binary(json::binary_t&) override { return false; }
  bool start_object(std::size_t) override {
    // end_object() sorts a pointer to each member.
    return open(sizeof(Json::Member) + sizeof(Json::Member*),
                [](Frame& frame, std::size_t n) { frame.members.reserve(n); });
  }
  bool start_array(std::size_t) override {
    return open(sizeof(Json), [](Frame& frame, std::size_t n) { frame.items.reserve(n); });
  }
  bool end_array() override { return close(Json::from_items(std::move(frames_.back().items))); }

  bool key(std::string& name) override {
    memory_ += heap_of(name);
    frames_.back().key = std::move(name);
    frames_.back().keyed = true;
    token_ = reached();
    return true;
  }

  bool end_object() override {
    std::vector<Json::Member>& members = frames_.back().members;
    std::vector<const Json::Member*> sorted;
    sorted.reserve(members.size());
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
    if (++values_ > kMostValues) return too_many(place);
    if (memory_ > most_memory_) return too_much(place);
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

  template <class Reserve>
  bool open(std::size_t each, Reserve reserve) {
    const Place place = place_of_value();
    if (++values_ > kMostValues) return too_many(place);
    if (frames_.size() == kMaxJsonDepth)
      return fail(place, "at most " + std::to_string(kMaxJsonDepth) + " levels of nesting", "more",
                  "");
    const std::size_t size = opened_ < sizes_.size() ? sizes_[opened_] : 0;
    ++opened_;
    if (size > 0) memory_ += heap(sizeof(std::vector<Json>)) + heap(size * each);
    if (memory_ > most_memory_) return too_much(place);
    Frame& frame = frames_.emplace_back();
    frame.place = place;
    reserve(frame, size);
    token_ = reached();
    return true;
  }

  bool too_many(Place place) {
    return fail(place, "at most " + std::to_string(kMostValues) + " values", "more",
                "divide the file");
  }

  bool too_much(Place place) {
    return fail(place, "values that take at most " + std::to_string(most_memory_ >> 20) + " MiB",
                "more: the text holds too many small values", "divide the file");
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
  std::vector<std::uint32_t> sizes_;  // of the containers, in the order in which they open
  std::size_t opened_ = 0;
  std::size_t memory_ = 0;  // of all values, bytes
  std::size_t most_memory_;
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
