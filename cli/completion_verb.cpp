#include <array>

#include <fmt/format.h>

#include "cli/output.hpp"
#include "cli/process.hpp"
#include "cli/verbs.hpp"
#include "hw_profiles/load.hpp"
#include "models/zoo.hpp"
#include "planner/strategy/keys.hpp"

namespace cli {
namespace {

constexpr std::string_view kCompletionPurpose =
    "Prints a script that completes verbs, options, models, GPUs and keys in a shell.";
constexpr std::string_view kCompletionExamples =
    "  source <(planner completion bash)     # in ~/.bashrc\n"
    "  planner completion zsh > ~/.zsh/_planner\n"
    "  planner completion fish > ~/.config/fish/completions/planner.fish";

constexpr std::array<std::string_view, 3> kShells{"bash", "zsh", "fish"};

// Options come from the help page of the verb at hand, so that they are never out of date; names
// are those of the binary that printed the script. @...@ are filled in below.
constexpr std::string_view kBash =
    R"sh(# bash completion of planner; made by: planner completion bash
_planner() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} verb='' words='' at
  if [[ $prev == '=' ]]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi
  for at in @verbs@; do
    if [[ ${COMP_WORDS[1]} == "$at" ]]; then verb=$at; fi
  done
  COMPREPLY=()
  case $prev in
    --model) words='@models@' ;;
    --gpu) words='@gpus@' ;;
    --pin | --forbid) words='@keys@'; compopt -o nospace 2>/dev/null ;;
    --out | --plan | --trace) COMPREPLY=($(compgen -f -- "$cur")); return ;;
    completion) words='@shells@' ;;
    *)
      if [[ $cur == -* ]]; then
        words=$("${COMP_WORDS[0]}" $verb --help 2>/dev/null | grep -o -e '--[a-z][a-z-]*')
      elif [[ $COMP_CWORD -eq 1 ]]; then
        words='@verbs@'
      else
        COMPREPLY=($(compgen -f -- "$cur"))
        return
      fi ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -F _planner planner
)sh";

constexpr std::string_view kZsh = R"sh(#compdef planner
# zsh completion of planner; made by: planner completion zsh
_planner() {
  local verb='' previous=${words[CURRENT-1]}
  local -a verbs=(@verbs@)
  if (( ${verbs[(Ie)${words[2]}]} )); then verb=${words[2]}; fi
  case $previous in
    --model) compadd -- @models@; _files ;;
    --gpu) compadd -- @gpus@ ;;
    --pin|--forbid) compadd -S '' -- @keys@ ;;
    completion) compadd -- @shells@ ;;
    *)
      if [[ $PREFIX == -* ]]; then
        compadd -- ${(f)"$(planner $verb --help 2>/dev/null | grep -o -e '--[a-z][a-z-]*')"}
      elif (( CURRENT == 2 )); then
        compadd -a verbs
      else
        _files
      fi ;;
  esac
}
if [[ $funcstack[1] == _planner ]]; then _planner "$@"; else compdef _planner planner; fi
)sh";

constexpr std::string_view kFish =
    R"sh(# fish completion of planner; made by: planner completion fish
complete -c planner -n __fish_use_subcommand -f -a '@verbs@'
complete -c planner -n '__fish_seen_subcommand_from completion' -f -a '@shells@'
complete -c planner -l model -x -a '@models@ (__fish_complete_path)'
complete -c planner -l gpu -x -a '@gpus@'
complete -c planner -l pin -x -a '@keys@'
complete -c planner -l forbid -x -a '@keys@'
complete -c planner -a "(planner --help 2>/dev/null | string match -r -a -- '--[a-z][a-z-]*')"
)sh";

template <class Range>
std::string blank_separated(const Range& names) {
  return fmt::format("{}", fmt::join(names, " "));
}

// "data=", "sharding=zero1", ...: keys, with their values where there are few.
std::vector<std::string> key_words() {
  std::vector<std::string> words;
  for (const planner::StrategyKey& key : planner::strategy_keys()) {
    const bool boolean = key.kind == planner::KeyKind::boolean;
    if (boolean)
      for (const char* value : {"true", "false"})
        words.push_back(fmt::format("{}={}", key.name, value));
    for (std::string_view value : key.choices)
      words.push_back(fmt::format("{}={}", key.name, value));
    if (!boolean && key.choices.empty()) words.push_back(fmt::format("{}=", key.name));
  }
  return words;
}

std::string filled(std::string_view script, std::span<const std::string_view> verbs) {
  std::vector<std::string> models;
  for (const models::ZooEntry& entry : models::zoo()) models.push_back(entry.spec.name);
  const std::array<std::pair<std::string_view, std::string>, 5> values{{
      {"@verbs@", blank_separated(verbs)},
      {"@models@", blank_separated(models)},
      {"@gpus@", blank_separated(hw_profiles::profile_names())},
      {"@keys@", blank_separated(key_words())},
      {"@shells@", blank_separated(kShells)},
  }};
  std::string text(script);
  for (const auto& [mark, value] : values)
    for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at))
      text.replace(at, mark.size(), value);
  return text;
}

}  // namespace

int completion_verb(Arguments arguments, std::span<const std::string_view> verbs) {
  std::string shell;
  OptionSet set("completion", kCompletionPurpose, kCompletionExamples);
  set.positional("SHELL", shell, "bash, zsh or fish");
  if (const auto ended = ended_by(set, arguments)) return *ended;
  const std::array<std::string_view, 3> scripts{kBash, kZsh, kFish};
  for (std::size_t i = 0; i < kShells.size(); ++i) {
    if (shell != kShells[i]) continue;
    const core::Status shown = write_stdout(filled(scripts[i], verbs));
    return shown.ok() ? kDone : refuse(shown.problems());
  }
  const std::string_view near = core::nearest(shell, {kShells.begin(), kShells.end()});
  return refuse({{"completion", "one of bash, zsh, fish", fmt::format("\"{}\"", shell),
                  near.empty() ? std::string() : fmt::format("did you mean {}?", near)}});
}

}  // namespace cli
