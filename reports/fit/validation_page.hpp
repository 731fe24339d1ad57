#pragma once
// reports/validation.md: predictions against published runs as a page of Markdown, wholly made of
// what was scored and fitted just now. Pure.

#include <string>
#include <string_view>

#include "core/code.hpp"
#include "reports/fit/fit.hpp"
#include "reports/validate/validation.hpp"

namespace reports::fit {

// file: what the runs are called in the page; scatter: the plot beside it; collectives: a section
// (validate/collectives.hpp).
std::string validation_page(const validation::Validation& validation, const Fitted& fitted,
                            std::string_view file, std::string_view scatter,
                            const core::Code& collectives = {});

}  // namespace reports::fit
