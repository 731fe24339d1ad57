#pragma once
// Internal to imports/: Python files that configure something, read as text and never run. Literals
// and arithmetic with them, names, calls with keywords, assignments to names and attributes, and
// calls of the file's own functions are followed. Whatever else decides a value (a condition, a
// loop, a comparison, an operator, a function from elsewhere) makes that value unknown; what a
// condition or a loop may change becomes unknown too. Values are references, as in Python: what one
// name changes is changed under the others. Thread-compatible.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/result.hpp"
#include "reports/imports/python_tokens.hpp"

namespace reports::imports {

using PythonRef = std::size_t;  // of a value, in Python::at()

struct PythonValue {
  enum class Kind : std::uint8_t {
    unknown,
    none,
    flag,
    whole,
    real,
    text,
    list,     // or a tuple
    dict,     // whose keys are texts
    name,     // of something from elsewhere: "torchtitan.trainer.Trainer"
    object,   // what a call of such a name gives; `text` is the name
    function  // of this file
  };
  Kind kind = Kind::unknown;
  std::string text{};      // of a text, a name or an object
  std::int64_t whole = 0;  // also of a flag; of a function: which one
  double real = 0;
  std::vector<PythonRef> items{};  // of a list; of an object: what stands without a keyword
  std::vector<std::pair<std::string, PythonRef>> members{};  // of a dict or an object
  std::string source{};  // of what is unknown, and of an object: as it was written
  int line = 0;
  // An object that nothing in the file makes, but whose attributes it names: a default. Where.
  std::optional<PythonRef> default_of{};
};

struct PythonFunction {
  std::string name, returns;  // returns: the annotation, "Trainer.Config"
  int line = 0;
  std::size_t body = 0, end = 0;  // tokens
  struct Parameter {
    std::string name;
    std::optional<PythonRef> by_default;
    bool keyword_only = false;
  };
  std::vector<Parameter> parameters;
  bool followed = true;  // false: decorated, a coroutine, or *args
};

// A call that may change a value and is not followed.
struct PythonCall {
  std::string source;
  int line = 0;
};

class Python {
 public:
  // whole: the class of the value that is looked for ("Trainer.Config"): a function from elsewhere
  // that gets one may change it. given: names whose value the user says, whatever the file does.
  Python(std::string name, std::string_view whole, const std::map<std::string, std::string>& given);

  // Reads the file, and what stands outside of its functions. Problems: no Python, or a text that
  // stands for far more than it holds.
  core::Status read(std::string_view text);
  // Of the file's outermost level, in their order, where nothing later has the same name.
  std::vector<const PythonFunction*> functions() const;
  // What it returns without arguments. REQUIRES: read() gave no problem.
  core::Result<PythonRef> call(const PythonFunction& function);
  const PythonValue& at(PythonRef ref) const { return values_[ref]; }
  // Calls that were not followed, outside of functions and in the last call().
  const std::vector<PythonCall>& unfollowed() const { return unfollowed_; }

 private:
  using Kind = PythonValue::Kind;
  using Names = std::map<std::string, PythonRef, std::less<>>;
  struct Frame {
    Names* names = nullptr;
    std::optional<PythonRef> result{};
    bool returned = false;
    bool undecided = false;  // within a condition or a loop
    bool loose = false;      // what it returns is not known
  };
  // Positional and named arguments of a call. whole: no *list and no **dict that is not known.
  struct Arguments {
    std::vector<PythonRef> items;
    std::vector<std::pair<std::string, PythonRef>> named;
    bool whole = true;
  };

  // python_statements.cpp: each reads from at_ on, and leaves at_ behind what it read.
  void run(std::size_t end, Frame& frame);
  void statement(Frame& frame);
  void simple(std::size_t end, Frame& frame);
  void compound(std::size_t end, Frame& frame);
  void header(std::size_t end, Frame& frame);
  void skip_block(std::size_t end);
  void define(bool followed, Frame& frame);
  void parameters_of(PythonFunction& function, std::size_t close, Frame& frame);
  void import_names(std::size_t end, Frame& frame);
  void returns(std::size_t end, Frame& frame);
  void assignment(std::size_t equals, std::size_t end, Frame& frame);
  void assign(std::size_t begin, std::size_t end, PythonRef value, Frame& frame);
  void lose_names(std::size_t begin, std::size_t end, Frame& frame);
  PythonRef invoke(std::size_t function, const Arguments& arguments, PythonRef otherwise);

  // python_expressions.cpp: the same.
  PythonRef expression(Frame& frame);
  bool is_plain() const;
  PythonRef sum(Frame& frame);
  PythonRef product(Frame& frame);
  PythonRef unary(Frame& frame);
  PythonRef postfix(Frame& frame);
  PythonRef primary(Frame& frame);
  PythonRef texts();
  PythonRef named(Frame& frame);
  PythonRef bracketed(Frame& frame);
  PythonRef dict_of(Frame& frame);
  PythonRef attribute(PythonRef base, std::size_t from);
  PythonRef subscript(PythonRef base, std::size_t from, Frame& frame);
  PythonRef method_call(PythonRef base, std::size_t from, Frame& frame);
  PythonRef call_of(PythonRef callee, std::size_t from, Frame& frame);
  Arguments arguments(Frame& frame);
  PythonRef number();
  PythonRef calculated(char op, PythonRef a, PythonRef b, std::size_t from);
  // Passes over what this reader does not follow, up to the end of the expression.
  void skip(Frame& frame);

  // python.cpp: values, names, and what is not followed. scan: lists and objects whose methods are
  // called between these tokens become unknown.
  void scan(std::size_t begin, std::size_t end, Frame& frame);
  void scan_call(std::size_t begin, std::size_t open, Frame& frame);
  std::size_t line_end(std::size_t at, bool one_statement = false);
  std::size_t next_at_depth(std::size_t at, std::size_t end, std::string_view word);
  bool within_budget(std::size_t tokens);
  void stop(int line, std::string expected, std::string found);
  const PythonToken& token(std::size_t at) const { return tokens_[at]; }
  std::string source_of(std::size_t begin, std::size_t end) const;
  PythonRef put(PythonValue value);
  PythonRef unknown(std::size_t begin, std::size_t end);
  std::optional<PythonRef> bound(std::string_view name, const Frame& frame) const;
  PythonRef lookup(std::string_view name, const Frame& frame);
  void bind(std::string_view name, PythonRef value, Frame& frame);
  PythonRef member_or_default(PythonRef base, std::string_view name, int line);
  void set_member(PythonRef base, std::string_view name, PythonRef value, int line);
  void lose(PythonRef ref, std::size_t begin, std::size_t end);
  bool may_change(PythonRef ref) const;
  bool is_whole(PythonRef ref) const;
  void report(std::size_t begin, std::size_t end);

  std::string name_;
  std::string_view whole_;
  const std::map<std::string, std::string>* given_;
  std::vector<PythonToken> tokens_;
  std::size_t at_ = 0;
  std::size_t budget_ = 0, calls_ = 0;
  std::size_t statement_ = 0;   // where the statement begins that is an expression
  bool comprehension_ = false;  // the last expression was one
  std::vector<PythonValue> values_;
  std::vector<PythonFunction> functions_;
  Names globals_;
  std::set<std::string, std::less<>> loose_;  // names that may change in ways not followed
  std::vector<PythonCall> unfollowed_;
  std::size_t unfollowed_outside_ = 0;  // the first of them
  std::optional<core::Problem> problem_;
};

// Whether a name is that of a class or function, whatever module it is from.
bool is_python_name(std::string_view full, std::string_view name);
bool closes_bracket(const PythonToken& token);
bool opens_bracket(const PythonToken& token);
bool ends_expression(const PythonToken& token);

}  // namespace reports::imports
