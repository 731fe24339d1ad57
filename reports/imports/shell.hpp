#pragma once
// Internal to imports/: shell scripts read as text and never run: the commands that they would
// start, with their words. Variables, arrays, arithmetic and conditions over strings and numbers
// are followed. What comes from outside (the caller's arguments, the output of a program, a
// variable that nothing sets) stays in a word as it was written, and the word is not `known`. What
// stands in a branch that such a thing decides, or in a loop, is not `sure`. Thread-compatible.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"
#include "reports/imports/shell_tokens.hpp"

namespace reports::imports {

struct ShellWord {
  std::string text;
  bool known = true, sure = true;
  int line = 0;
  std::string by_default{};            // a variable that nothing sets, whose default is in it
};
struct ShellCommand {
  std::vector<ShellWord> words;
  bool sure = true;
};

class Shell {
 public:
  // Given by the user: they stand whatever the script says of them.
  explicit Shell(const std::map<std::string, std::string>& given);

  // Scripts follow each other as if the later ones read the earlier ones in.
  core::Status read(std::string_view text, const std::string& name);

  const std::vector<ShellCommand>& commands() const { return commands_; }
  // The words of every variable and array, in the order in which they were set.
  const std::vector<std::vector<ShellWord>>& assigned() const { return assigned_; }
  // Each "#SBATCH --nodes=4" line's words.
  const std::vector<ShellWord>& batch_options() const { return batch_; }
  // Variables that nothing sets and a condition asks for: they were taken to be empty.
  const std::vector<std::string>& taken_empty() const { return taken_empty_; }

 private:
  enum class Truth : std::uint8_t { no, yes, unknown };
  struct Value {
    std::vector<ShellWord> items;      // of a scalar one
    bool is_array = false;
  };
  struct Frame {
    enum class Kind : std::uint8_t { branches, loop, cases, group, function };
    Kind kind{};
    Truth taken = Truth::yes;          // whether this branch runs
    bool had = false;                  // an earlier branch runs for sure
    bool might = false;                // an earlier branch may run
    bool conditioning = false;         // its condition is being read
  };
  using Tokens = std::vector<ShellToken>;

  std::size_t statement(const Tokens& tokens, std::size_t at);
  void simple(Tokens tokens, Truth run);
  // Takes a reserved word off the front, if there is one.
  bool reserved(Tokens& tokens);
  void begins(Frame::Kind kind, Truth taken, bool conditioning);
  void next_branch(bool last);
  void ends(Frame::Kind kind);
  void assign(std::string_view name, bool append, Value value, Truth run);
  bool assigns(const ShellToken& token, Truth run);
  Truth live() const;
  Truth test(const Tokens& tokens);
  void note_batch(std::string_view text);

  // A word's fields, as the shell splits them.
  std::vector<ShellWord> expand(const ShellToken& token);
  // As one text: of assignments and of both sides of a test.
  ShellWord expand_whole(const ShellToken& token);
  friend class ShellExpander;

  std::map<std::string, std::string> given_;
  std::map<std::string, Value, std::less<>> variables_;
  std::vector<Frame> frames_;
  std::vector<ShellCommand> commands_;
  std::vector<std::vector<ShellWord>> assigned_;
  std::size_t kept_items_ = 0, expanded_ = 0;  // items in assigned_; bytes of all words
  std::vector<ShellWord> batch_;
  std::vector<std::string> taken_empty_;
  Truth last_ = Truth::yes;            // of the command before
  std::string joined_by_;              // "&&", "||" before the command
  // In a test a variable that nothing sets is empty, as in a fresh shell.
  bool unset_is_empty_ = false;
  bool ended_ = false, names_function_ = false;
};

}  // namespace reports::imports
