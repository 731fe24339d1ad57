#include "reports/logs/pickle.hpp"

#include <utility>
#include <vector>

#include <fmt/format.h>

namespace reports::logs {
namespace {

using Kind = Pickle::Kind;
using Value = Pickle::Value;

// The operations, by their names in Python's pickletools.
enum class Op : unsigned char {
  mark = '(', stop = '.', pop = '0', pop_mark = '1', dup = '2', binint = 'J', binint1 = 'K',
  binint2 = 'M', none = 'N', binfloat = 'G', binunicode = 'X', short_binbytes = 'C', binbytes = 'B',
  append = 'a', appends = 'e', dict = 'd', list = 'l', empty_list = ']', empty_tuple = ')',
  empty_dict = '}', setitem = 's', setitems = 'u', tuple = 't', binget = 'h', long_binget = 'j',
  binput = 'q', long_binput = 'r', proto = 0x80, tuple1 = 0x85, tuple2 = 0x86, tuple3 = 0x87,
  newtrue = 0x88, newfalse = 0x89, long1 = 0x8a, long4 = 0x8b, short_binunicode = 0x8c,
  binunicode8 = 0x8d, binbytes8 = 0x8e, memoize = 0x94, frame = 0x95, bytearray8 = 0x96
};

constexpr int kTextBits = 30;          // of a text's place, and of its length

}  // namespace

// One pass over the text with Python's stack of values and of marks. Every read is checked.
class PickleReader {
 public:
  PickleReader(std::string_view text, const std::string& name)
      : name_(name), most_(Pickle::kMemory * text.size() + Pickle::kLeast) {
    pickle_.text_ = text;
  }

  core::Result<Pickle> read() && {
    while (!problem_ && !stopped_) step();
    if (problem_) return *problem_;
    return std::move(pickle_);
  }

 private:
  void step() {
    const std::string_view code = bytes(1);
    if (problem_) return;
    switch (static_cast<Op>(code.front())) {
      case Op::proto: bytes(1); break;
      case Op::frame: bytes(8); break;
      case Op::mark: count(sizeof(Value)); marks_.push_back(stack_.size()); break;
      case Op::stop: pickle_.root_ = pop(); stopped_ = true; break;
      case Op::pop: pop(); break;
      case Op::pop_mark: marked(); break;
      case Op::dup: push(top()); break;
      case Op::none: push({}); break;
      case Op::newtrue: push({Kind::boolean, 1}); break;
      case Op::newfalse: push({Kind::boolean, 0}); break;
      case Op::binint1: push({Kind::integer, whole(1)}); break;
      case Op::binint2: push({Kind::integer, whole(2)}); break;
      case Op::binint: push({Kind::integer, static_cast<std::int32_t>(whole(4))}); break;
      case Op::long1: number(whole(1)); break;
      case Op::long4: number(whole(4)); break;
      case Op::binfloat: bytes(8); push({Kind::other, 0}); break;
      case Op::short_binunicode: case Op::short_binbytes: text(whole(1)); break;
      case Op::binunicode: case Op::binbytes: text(whole(4)); break;
      case Op::binunicode8: case Op::binbytes8: case Op::bytearray8: text(whole(8)); break;
      case Op::empty_list: case Op::empty_tuple: container(Kind::list, {}); break;
      case Op::empty_dict: container(Kind::dictionary, {}); break;
      case Op::list: case Op::tuple: container(Kind::list, marked()); break;
      case Op::dict: container(Kind::dictionary, marked()); break;
      case Op::tuple1: case Op::tuple2: case Op::tuple3:
        container(Kind::list, last(static_cast<unsigned char>(code.front()) -
                                   static_cast<unsigned char>(Op::tuple1) + 1U));
        break;
      case Op::append: extend(Kind::list, last(1)); break;
      case Op::appends: extend(Kind::list, marked()); break;
      case Op::setitem: extend(Kind::dictionary, last(2)); break;
      case Op::setitems: extend(Kind::dictionary, marked()); break;
      case Op::binget: get(whole(1)); break;
      case Op::long_binget: get(whole(4)); break;
      case Op::binput: put(whole(1)); break;
      case Op::long_binput: put(whole(4)); break;
      case Op::memoize: put(static_cast<std::int64_t>(memo_.size())); break;
      default:
        refuse("plain data", fmt::format("operation 0x{:02x}, which makes an object or calls a "
                                         "function (nothing was run)",
                                         static_cast<unsigned char>(code.front())));
    }
  }

  // The next bytes; as many as there are where the text is too short, which is a problem.
  std::string_view bytes(std::size_t length) {
    const std::string_view rest = pickle_.text_.substr(at_);
    if (length > rest.size()) {
      refuse("a whole file", "its end");
      at_ = pickle_.text_.size();
      return rest;
    }
    at_ += length;
    return rest.substr(0, length);
  }

  // Little-endian; what is above 62 bits is a problem.
  std::int64_t whole(std::size_t width) {
    std::uint64_t value = 0;
    int shift = 0;
    for (const char byte : bytes(width)) {
      value |= static_cast<std::uint64_t>(static_cast<unsigned char>(byte)) << shift;
      shift += 8;
    }
    if (value >> 62U != 0) refuse("a length or number below 2^62", std::to_string(value));
    return problem_ ? 0 : static_cast<std::int64_t>(value);
  }

  // Two's complement of so many bytes.
  void number(std::int64_t width) {
    const std::string_view digits = bytes(static_cast<std::size_t>(width));
    constexpr std::size_t kFits = 7;
    if (digits.size() > kFits) return push({Kind::other, 0});
    std::uint64_t value = 0;
    for (auto digit = digits.rbegin(); digit != digits.rend(); ++digit)
      value = value << 8U | static_cast<unsigned char>(*digit);
    const std::size_t unused = 64 - 8 * digits.size();
    if (unused < 64)
      value = static_cast<std::uint64_t>(static_cast<std::int64_t>(value << unused) >> unused);
    push({Kind::integer, static_cast<std::int64_t>(value)});
  }

  void text(std::int64_t length) {
    const auto place = static_cast<std::int64_t>(at_);
    bytes(static_cast<std::size_t>(length));
    if (!problem_) push({Kind::text, place << kTextBits | length});
  }

  void push(Value value) {
    count(sizeof(Value));
    if (!problem_) stack_.push_back(value);
  }

  // How many values lie above the last mark, which no operation may take from below.
  std::size_t above_mark() const { return stack_.size() - (marks_.empty() ? 0 : marks_.back()); }

  Value top() {
    if (above_mark() == 0) refuse("a value", "none");
    return problem_ ? Value() : stack_.back();
  }

  Value pop() {
    const Value value = top();
    if (problem_) return value;
    stack_.pop_back();
    taken_ -= sizeof(Value);
    return value;
  }

  std::vector<Value> last(std::size_t length) {
    if (above_mark() < length) refuse(fmt::format("{} values", length), "fewer");
    return problem_ ? std::vector<Value>() : taken(stack_.size() - length);
  }

  std::vector<Value> marked() {
    if (marks_.empty()) refuse("a mark", "none");
    if (problem_) return {};
    const std::size_t from = marks_.back();
    marks_.pop_back();
    taken_ -= sizeof(Value);
    return taken(from);
  }

  std::vector<Value> taken(std::size_t from) {
    const auto first = stack_.begin() + static_cast<std::ptrdiff_t>(from);
    std::vector<Value> values(first, stack_.end());
    stack_.erase(first, stack_.end());
    taken_ -= values.size() * sizeof(Value);
    return values;
  }

  void container(Kind kind, const std::vector<Value>& values) {
    count(sizeof(Pickle::Container));
    if (problem_) return;
    pickle_.containers_.emplace_back();
    push({kind, static_cast<std::int64_t>(pickle_.containers_.size()) - 1});
    extend(kind, values);
  }

  void extend(Kind kind, const std::vector<Value>& values) {
    if (top().kind() != kind)
      refuse(kind == Kind::list ? "a list" : "a dictionary", "something else");
    if (kind == Kind::dictionary && values.size() % 2 != 0)
      refuse("a value for each key", "a key alone");
    if (problem_ || values.empty()) return;
    count((values.size() + 1) * sizeof(Value));
    if (problem_) return;
    std::deque<Value>& all = pickle_.values_;
    Pickle::Container& grown =
        pickle_.containers_[static_cast<std::size_t>(top().payload())];
    const std::size_t place = all.size();
    if (grown.first == 0) {
      grown.first = static_cast<std::uint32_t>(place);
    } else {
      const Pickle::Part last(all[grown.last]);
      all[grown.last] = Pickle::Part(place, last.length).header();
    }
    grown.last = static_cast<std::uint32_t>(place);
    all.push_back(Pickle::Part(0, values.size()).header());
    all.insert(all.end(), values.begin(), values.end());
  }

  void get(std::int64_t number) {
    if (number >= static_cast<std::int64_t>(memo_.size()))
      refuse(fmt::format("one of {} values", memo_.size()), std::to_string(number));
    if (!problem_) push(memo_[static_cast<std::size_t>(number)]);
  }

  // Pickle's writers number from 0 on.
  void put(std::int64_t number) {
    const auto at = static_cast<std::size_t>(number);
    if (at > memo_.size()) refuse(std::to_string(memo_.size()), std::to_string(number));
    count(sizeof(Value));
    const Value value = top();
    if (problem_) return;
    if (at == memo_.size()) memo_.push_back(value);
    else memo_[at] = value;
  }

  // What the stack, the memo and containers hold.
  void count(std::size_t bytes) {
    taken_ += bytes;
    if (taken_ > most_)
      refuse(fmt::format("data of at most {} bytes in memory", most_), "more");
  }

  void refuse(std::string expected, std::string found) {
    if (!problem_)
      problem_ = core::Problem{fmt::format("{} byte {}", name_, at_), std::move(expected),
                               std::move(found), ""};
  }

  const std::string& name_;
  std::size_t most_, taken_ = 0, at_ = 0;
  bool stopped_ = false;
  Pickle pickle_;
  std::vector<Value> stack_;
  std::deque<Value> memo_;
  std::vector<std::size_t> marks_;
  std::optional<core::Problem> problem_;
};

core::Result<Pickle> Pickle::read(std::string_view text, const std::string& name) {
  if (!is_pickle(text))
    return core::Problem{name, "a pickle of protocol 2 to 5", "another file", ""};
  if (text.size() >= kMostText)
    return core::Problem{name, fmt::format("a pickle below {} bytes", kMostText),
                         std::to_string(text.size()), ""};
  return PickleReader(text, name).read();
}

Value Pickle::find(Value dictionary, std::string_view key) const {
  if (dictionary.kind() != Kind::dictionary) return {};
  Value found;                         // of a key that is there twice the last, as Python takes it
  bool is_key = true, wanted = false;
  each(dictionary, [&](Value value) {
    if (is_key) wanted = value.kind() == Kind::text && text(value) == key;
    else if (wanted) found = value;
    is_key = !is_key;
  });
  return found;
}

std::string_view Pickle::text(Value value) const {
  if (value.kind() != Kind::text) return {};
  const auto place = static_cast<std::size_t>(value.payload() >> kTextBits);
  const auto length = static_cast<std::size_t>(value.payload() & ((1LL << kTextBits) - 1));
  return text_.substr(place, length);
}

std::optional<std::int64_t> Pickle::integer(Value value) const {
  if (value.kind() != Kind::integer) return std::nullopt;
  return value.payload();
}

bool is_pickle(std::string_view text) {
  constexpr char kFirst = 2, kLast = 5;
  return text.size() >= 2 && static_cast<unsigned char>(text[0]) == 0x80 && text[1] >= kFirst &&
         text[1] <= kLast;
}

}  // namespace reports::logs
