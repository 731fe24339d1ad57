#pragma once
// Internal to imports/: the settings of a configuration, each of which is read, known to have no
// influence, or named as not read. Whoever reads one takes it by its name and says what it becomes;
// what is left at the end was not read. Thread-compatible.

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"

namespace reports::imports {

// What became of a setting: of one that was read, the field of the question; else why not.
struct SettingNote {
  std::string key, value, text;
};

struct Setting {
  std::string key;                     // "--tp-comm-overlap", "parallelism.tensor_parallel_degree"
  std::vector<std::string> words;      // its values; none of a flag
  // False: a variable of the script that nothing sets; a branch that nothing decides.
  bool known = true, sure = true;
  std::string where{};                 // "train.sh:12"
  // A variable of the script that nothing sets, and whose default is in the value.
  std::string by_default{};
  bool taken = false;
  std::string fix{};                   // where the value is not known: how to say it
  std::string value() const;           // the words in a row
};

class Settings {
 public:
  explicit Settings(core::Problems& problems) : problems_(problems) {}

  void add(Setting setting);
  bool has(std::string_view key) const;
  const std::vector<Setting>& all() const { return all_; }

  // The last one of this name: it is taken, and becomes `as`. Null: not there, or not `sure`. One
  // whose value is not known is a problem.
  const Setting* take(std::string_view key, std::string_view as);
  // Problems: no number >= low; another word than these.
  std::optional<std::int64_t> count(std::string_view key, std::string_view as,
                                    std::int64_t low = 1);
  std::optional<double> number(std::string_view key, std::string_view as);
  std::optional<std::string> text(std::string_view key, std::string_view as);
  std::optional<std::string> one_of(std::string_view key, std::string_view as,
                                    std::initializer_list<std::string_view> words);
  // A flag that is there, or a value that is true.
  bool flag(std::string_view key, std::string_view as);
  // Takes it, as one that was not read, for this reason.
  void leave(std::string_view key, std::string why);
  // The same of what no setting says and a default decides.
  void leave_default(std::string key, std::string value, std::string why);
  // Of one that was taken: what it became, in better words.
  void became(std::string_view key, std::string as);
  void problem(const Setting& setting, std::string expected, std::string fix = "");

  // Those that are left: without influence (the table of that format, settings.json), or not read.
  // REQUIRES: format is in the table.
  void sort_rest(std::string_view format);
  // Of those that were read, where a variable's default decided.
  const std::vector<std::string>& defaults() const { return defaults_; }
  const std::vector<SettingNote>& read() const { return read_; }
  const std::vector<SettingNote>& unread() const { return unread_; }
  const std::vector<SettingNote>& harmless() const { return harmless_; }

 private:
  Setting* find(std::string_view key);

  core::Problems& problems_;
  std::vector<Setting> all_;
  std::vector<SettingNote> read_, unread_, harmless_;
  std::vector<std::string> defaults_;
};

}  // namespace reports::imports
