#pragma once
// From files to a page: what each says, and what they say together (a run beside its plan). Pure;
// thread-safe.

#include <string>
#include <vector>

#include "core/result.hpp"
#include "reports/html/sections.hpp"

namespace reports::html {

// First what runs measured, each beside the first plan that it belongs to; then plans beside each
// other; then a part for each file, in their order.
// Problems: as working a plan's curves out says.
core::Result<Page> build_page(const std::vector<Document>& documents, std::string made_by,
                              const Progress& progress, Extent extent = Extent::whole);

}  // namespace reports::html
