#include "reports/imports/megatron_script.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include <fmt/format.h>

#include "reports/imports/shell.hpp"

namespace reports::imports {
namespace {

using Words = std::vector<ShellWord>;
using Tokens = std::vector<ShellToken>;

// Every launch of Megatron-LM has one of them.
constexpr std::array<std::string_view, 5> kMarks{"--num-layers", "--micro-batch-size",
                                                 "--hidden-size", "--tensor-model-parallel-size",
                                                 "--global-batch-size"};
constexpr std::size_t kMostSettings = 5000;

bool is_option(std::string_view word) {
  return word.size() > 2 && word.starts_with("--") &&
         std::isalpha(static_cast<unsigned char>(word[2])) != 0;
}
std::size_t marks_in(const Words& words) {
  return static_cast<std::size_t>(std::ranges::count_if(words, [](const ShellWord& w) {
    return std::ranges::any_of(kMarks, [&](std::string_view mark) {
      return w.text == mark || w.text.starts_with(std::string(mark) + '=');
    });
  }));
}

// A command line that another command takes as one word (`srun bash -c "..."`) as words.
Words opened(const Words& words) {
  Words all;
  for (const ShellWord& word : words) {
    const bool command = word.text.find_first_of(" \n") != std::string::npos &&
                         (word.text.find(".py ") != std::string::npos || is_option(word.text));
    const auto tokens = command ? shell_tokens(word.text, "") : core::Result<Tokens>(Tokens{});
    if (!tokens.ok() || tokens->empty()) {
      all.push_back(word);
      continue;
    }
    for (const ShellToken& token : *tokens)
      if (token.kind == ShellToken::Kind::word)
        all.push_back({token.text, word.known || token.text.find('$') == std::string::npos,
                       word.sure, word.line, word.by_default});
  }
  return all;
}

// A variable that holds several options is one word.
Words split(const Words& words) {
  Words parts;
  for (const ShellWord& word : words) {
    std::size_t at = 0;
    while ((at = word.text.find_first_not_of(" \t\r\n", at)) != std::string::npos) {
      const std::size_t end = std::min(word.text.find_first_of(" \t\r\n", at), word.text.size());
      const std::string part = word.text.substr(at, end - at);
      parts.push_back({part, word.known || part.find('$') == std::string::npos, word.sure,
                       word.line, word.by_default});
      at = end;
    }
  }
  return parts;
}

// The words of the command that starts Megatron-LM; else every option that a variable or a line of
// its own holds.
Words launch_of(const Shell& shell, std::vector<std::string>& notes) {
  Words best;
  std::size_t launches = 0;
  for (const ShellCommand& command : shell.commands()) {
    Words words = opened(command.words);
    const std::size_t marks = marks_in(words);
    if (marks == 0 || is_option(words.front().text)) continue;
    ++launches;
    if (marks > marks_in(best)) best = std::move(words);
  }
  if (launches > 1)
    notes.push_back(fmt::format("{} commands have options of Megatron-LM: the one with the most "
                                "options of the model is read", launches));
  if (!best.empty()) return best;
  const auto add = [&](const Words& words) {
    Words parts = split(words);
    if (parts.empty() || !is_option(parts.front().text)) return;
    std::ranges::move(parts, std::back_inserter(best));
  };
  for (const Words& words : shell.assigned()) add(words);
  for (const ShellCommand& command : shell.commands()) add(command.words);
  if (marks_in(best) == 0) return {};
  notes.emplace_back("no command starts Megatron-LM: its options are taken from where they stand");
  return best;
}

// torchrun takes either spelling.
std::string launcher_key(std::string key) {
  std::ranges::replace(key, '-', '_');
  return "--" + key.substr(2);
}

void add_words(const Words& words, const std::string& file, Settings& settings) {
  const auto script = std::ranges::find_if(words, [](const ShellWord& word) {
    return word.text.ends_with(".py");
  });
  Setting open;
  const auto close = [&] {
    if (!open.key.empty()) settings.add(std::exchange(open, {}));
  };
  for (auto it = words.begin(); it != words.end(); ++it) {
    if (it == script) {
      close();
      continue;
    }
    const bool short_option = it < script && script != words.end() && it->text.size() == 2 &&
                              it->text.front() == '-';
    if (is_option(it->text) || short_option) {
      close();
      const std::size_t equals = std::min(it->text.find('='), it->text.size());
      std::string key = it->text.substr(0, equals);
      if (it < script && script != words.end() && !short_option) key = launcher_key(key);
      open = {};
      open.key = std::move(key);
      open.known = it->known;
      open.sure = it->sure;
      open.where = fmt::format("{}:{}", file, it->line);
      open.by_default = it->by_default;
      if (equals < it->text.size()) open.words.push_back(it->text.substr(equals + 1));
    } else if (!open.key.empty()) {
      open.words.push_back(it->text);
      open.known = open.known && it->known;
      open.sure = open.sure && it->sure;
      if (!it->by_default.empty()) open.by_default = it->by_default;
    }
  }
  close();
}

// "--nodes=4", "--nodes 4", "-N4", "-N 4" of lines that begin with #SBATCH.
void add_batch_options(const Words& words, const std::string& file, Settings& settings) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& text = words[i].text;
    const bool nodes = text.starts_with("-N");
    if (!is_option(text) && !nodes) continue;
    Setting setting;
    setting.where = fmt::format("{}:{}", file, words[i].line);
    const std::size_t equals = std::min(text.find('='), text.size());
    setting.key = nodes ? "--nodes" : text.substr(0, equals);
    if (nodes && text.size() > 2) setting.words.push_back(text.substr(2));
    else if (equals < text.size()) setting.words.push_back(text.substr(equals + 1));
    else if (i + 1 < words.size() && !words[i + 1].text.starts_with('-') &&
             words[i + 1].line == words[i].line)
      setting.words.push_back(words[++i].text);
    settings.add(std::move(setting));
  }
}

void note_conditions(const Shell& shell, std::vector<std::string>& notes) {
  std::vector<std::string> said;
  for (const std::string& name : shell.taken_empty()) {
    if (std::ranges::find(said, name) != said.end()) continue;
    said.push_back(name);
    notes.push_back(fmt::format("{}: a condition asks for it and nothing sets it, so it is empty; "
                                "--var {}=VALUE says otherwise", name, name));
  }
}

}  // namespace

bool has_megatron_options(std::string_view text) {
  return std::ranges::any_of(kMarks, [&](std::string_view mark) {
    return text.find(mark) != std::string_view::npos;
  });
}

core::Status read_script(std::span<const File> files,
                         const std::map<std::string, std::string>& variables, Settings& settings,
                         std::vector<std::string>& notes) {
  Shell shell(variables);
  for (const File& file : files)
    if (const core::Status done = shell.read(file.text, file.name); !done.ok()) return done;
  const Words words = launch_of(shell, notes);
  if (words.empty())
    return core::Problem{files.back().name, "a command that starts Megatron-LM, or its options",
                         "none", "name the script that holds --num-layers and --micro-batch-size"};
  if (words.size() > kMostSettings)
    return core::Problem{files.back().name, fmt::format("at most {} words", kMostSettings),
                         std::to_string(words.size()), ""};
  add_batch_options(shell.batch_options(), files.back().name, settings);
  add_words(words, files.back().name, settings);
  note_conditions(shell, notes);
  return core::Done{};
}

}  // namespace reports::imports
