#include "cli/page_form.hpp"

#include <fmt/format.h>

#include "reports/html/write_page.hpp"

namespace cli {

core::Result<PageForm> page_form_of(const std::optional<std::string>& out,
                                    const std::optional<std::string>& format,
                                    const std::string& option) {
  if (format) {
    if (*format == "html") return PageForm::html;
    if (*format == "part") return PageForm::part;
    if (*format == "md") return PageForm::markdown;
    return core::Problem{"--format", "html, part or md", fmt::format("\"{}\"", *format), ""};
  }
  if (!out) return PageForm::markdown;
  if (out->ends_with(".md") || out->ends_with(".markdown")) return PageForm::markdown;
  if (out->ends_with(".html") || out->ends_with(".htm")) return PageForm::html;
  return core::Problem{option + ' ' + *out, "a name that ends with .html or .md", "another",
                       option == "--out" ? "say which with --format html or --format md"
                                         : "write " + option + " page.html"};
}

std::string page_text(const reports::html::Page& page, PageForm form) {
  if (form == PageForm::markdown) return reports::html::to_markdown(page);
  return form == PageForm::part ? reports::html::to_html_part(page) : reports::html::to_html(page);
}

}  // namespace cli
