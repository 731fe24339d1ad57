#pragma once
// A run record as a page of text. Pure; thread-safe.

#include <string>

#include "exec/record/run_record.hpp"
#include "reports/text.hpp"

namespace reports {

std::string run_text(const exec::RunRecord& record, TextStyle style);

}  // namespace reports
