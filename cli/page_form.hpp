#pragma once
// The forms that a page is written in: whole HTML, a piece of it for another page, or Markdown.

#include <optional>
#include <string>

#include "core/result.hpp"
#include "reports/html/page.hpp"

namespace cli {

enum class PageForm : std::uint8_t { html, part, markdown };

// What --format says (html, part or md), else what the file's name ends with (.html, .htm, .md,
// .markdown). Without both: Markdown.
core::Result<PageForm> page_form_of(const std::optional<std::string>& out,
                                    const std::optional<std::string>& format,
                                    const std::string& option = "--out");

std::string page_text(const reports::html::Page& page, PageForm form);

}  // namespace cli
