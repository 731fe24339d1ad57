#include <cctype>

#include <fmt/format.h>

#include "reports/html/write_page.hpp"

namespace reports::html {
namespace {

// Plain text inside Markdown: what would be markup there is written with a backslash, what would
// be HTML as a reference, and a cell stays on its line.
std::string plain(std::string_view text) {
  std::string out;
  const std::string safe = escaped(text);
  const auto in_word = [&](std::size_t i) {  // an underscore there is no markup
    const auto letter = [&](std::size_t j) {
      return j < safe.size() && std::isalnum(static_cast<unsigned char>(safe[j])) != 0;
    };
    return i > 0 && letter(i - 1) && letter(i + 1);
  };
  for (std::size_t i = 0; i < safe.size(); ++i) {
    const char c = safe[i];
    if (c == '\n') out += ' ';
    else if (c == '_' && !in_word(i)) out += "\\_";
    else if (std::string_view("\\`*{}[]|~").find(c) != std::string_view::npos) out += {'\\', c};
    else out += c;
  }
  // Quotes harm nobody here.
  for (const auto& [from, to] : {std::pair{std::string_view("&quot;"), '"'}, {"&#39;", '\''}})
    for (std::size_t at = out.find(from); at != std::string::npos; at = out.find(from, at))
      out.replace(at, from.size(), 1, to);
  return out;
}

class MarkdownWriter {
 public:
  std::string run(const Page& page) {
    out_ = fmt::format("# {}\n", plain(page.title));
    if (!page.about.empty()) out_ += fmt::format("\n{}\n", plain(page.about));
    for (const Part& part : page.parts) {
      out_ += fmt::format("\n## {}\n", plain(part.title));
      for (const Section& section : part.sections) {
        out_ += fmt::format("\n### {}\n", plain(section.title));
        for (const Block& block : section.blocks)
          std::visit([&](const auto& b) { write(b); }, block);
      }
    }
    out_ += fmt::format("\nMade by {} from: ", plain(page.made_by));
    for (std::size_t i = 0; i < page.files.size(); ++i)
      out_ += fmt::format("{}{}", i == 0 ? "" : ", ", plain(page.files[i]));
    return std::move(out_) + "\n";
  }

 private:
  void write(const Verdict& verdict) {
    out_ += fmt::format("\n**{}.** {}\n", plain(verdict.word), plain(verdict.sentence));
  }
  void write(const Tiles& tiles) {
    out_ += "\n| figure | value | |\n|---|---:|---|\n";
    for (const Tile& tile : tiles.tiles)
      out_ += fmt::format("| {} | {}{}{} | {} |\n", plain(tile.title), plain(tile.figure.text),
                          tile.unit.empty() ? "" : " ", plain(tile.unit), plain(tile.note));
  }
  void write(const Bar& bar) {
    out_ += fmt::format("\n*{}.* {}\n\n| part | size |\n|---|---:|\n", plain(bar.title),
                        plain(bar.alternative));
    const auto row = [&](const BarPart& part) {
      out_ += fmt::format("| {} | {} |\n", plain(part.name), plain(part.figure.text));
    };
    for (const BarPart& part : bar.parts) row(part);
    if (bar.rest.size > 0) row(bar.rest);
  }
  void write(const Text& text) { out_ += fmt::format("\n{}\n", plain(text.text)); }
  void write(const Bullets& bullets) {
    out_ += '\n';
    for (const std::string& item : bullets.items) out_ += fmt::format("- {}\n", plain(item));
  }
  void write(const Chart& chart) {
    out_ += fmt::format("\n*{}.* {}\n", plain(chart.title), plain(chart.alternative));
  }
  void write(const GraphPicture& picture) {
    out_ += fmt::format("\n*{}.* {}\n", plain(picture.title), plain(picture.alternative));
  }
  void write(const NetworkPicture& picture) {
    out_ += fmt::format("\n*{}.* {}\n", plain(picture.title), plain(picture.alternative));
  }
  void write(const PageTable& table) {
    out_ += fmt::format("\n{}:\n\n|", plain(table.caption));
    for (const PageColumn& column : table.columns)
      out_ += fmt::format(" {} |", plain(column.title));
    out_ += "\n|";
    for (const PageColumn& column : table.columns) out_ += column.number ? "---:|" : "---|";
    out_ += '\n';
    for (const std::vector<Cell>& row : table.rows) {
      out_ += '|';
      for (const Cell& cell : row)
        out_ += cell.strong ? fmt::format(" **{}** |", plain(cell.text))
                            : fmt::format(" {} |", plain(cell.text));
      out_ += '\n';
    }
  }

  std::string out_;
};

}  // namespace

std::string to_markdown(const Page& page) { return MarkdownWriter().run(page); }

}  // namespace reports::html
