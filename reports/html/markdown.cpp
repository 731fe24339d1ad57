#include <utility>

#include "reports/html/write_page.hpp"

namespace reports::html {
namespace {

using core::Code;
using core::code;

Code plain(std::string_view text) {
  return Code::markdown(text);
}

class MarkdownWriter {
 public:
  Code run(const Page& page) {
    out_ = code("# {}\n", plain(page.title));
    if (!page.about.empty()) out_ += code("\n{}\n", plain(page.about));
    for (const Part& part : page.parts) {
      out_ += code("\n## {}\n", plain(part.title));
      for (const Section& section : part.sections) {
        out_ += code("\n### {}\n", plain(section.title));
        for (const Block& block : section.blocks)
          std::visit([&](const auto& b) { write(b); }, block);
      }
    }
    out_ += code("\nMade by {} from: ", plain(page.made_by));
    for (std::size_t i = 0; i < page.files.size(); ++i)
      out_ += code("{}{}", Code::own(i == 0 ? "" : ", "), plain(page.files[i]));
    return std::move(out_) + "\n";
  }

 private:
  void write(const Verdict& verdict) {
    out_ += code("\n**{}.** {}\n", plain(verdict.word), plain(verdict.sentence));
  }
  void write(const Tiles& tiles) {
    out_ += "\n| figure | value | |\n|---|---:|---|\n";
    for (const Tile& tile : tiles.tiles)
      out_ += code("| {} | {}{}{} | {} |\n", plain(tile.title), plain(tile.figure.text),
                   Code::own(tile.unit.empty() ? "" : " "), plain(tile.unit), plain(tile.note));
  }
  void write(const Bar& bar) {
    out_ += code("\n*{}.* {}\n\n| part | size |\n|---|---:|\n", plain(bar.title),
                 plain(bar.alternative));
    const auto row = [&](const BarPart& part) {
      out_ += code("| {} | {} |\n", plain(part.name), plain(part.figure.text));
    };
    for (const BarPart& part : bar.parts) row(part);
    if (bar.rest.size > 0) row(bar.rest);
  }
  void write(const Text& text) { out_ += code("\n{}\n", plain(text.text)); }
  void write(const Bullets& bullets) {
    out_ += "\n";
    for (const std::string& item : bullets.items) out_ += code("- {}\n", plain(item));
  }
  void write(const Chart& chart) {
    out_ += code("\n*{}.* {}\n", plain(chart.title), plain(chart.alternative));
  }
  void write(const GraphPicture& picture) {
    out_ += code("\n*{}.* {}\n", plain(picture.title), plain(picture.alternative));
  }
  void write(const NetworkPicture& picture) {
    out_ += code("\n*{}.* {}\n", plain(picture.title), plain(picture.alternative));
  }
  void write(const PageTable& table) {
    out_ += code("\n{}:\n\n|", plain(table.caption));
    for (const PageColumn& column : table.columns) out_ += code(" {} |", plain(column.title));
    out_ += "\n|";
    for (const PageColumn& column : table.columns)
      out_ += Code::own(column.number ? "---:|" : "---|");
    out_ += "\n";
    for (const std::vector<Cell>& row : table.rows) {
      out_ += "|";
      for (const Cell& cell : row)
        out_ += cell.strong ? code(" **{}** |", plain(cell.text)) : code(" {} |", plain(cell.text));
      out_ += "\n";
    }
  }

  Code out_;
};

}  // namespace

std::string to_markdown(const Page& page) {
  return MarkdownWriter().run(page).text();
}

}  // namespace reports::html
