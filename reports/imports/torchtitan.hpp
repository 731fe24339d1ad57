#pragma once
// Internal to imports/: torchtitan's two forms of configuration, the job file of its releases up to
// 0.2 and the Python of its main branch, and what both say in the same words.

#include <initializer_list>
#include <string>
#include <string_view>

#include "reports/imports/facts.hpp"

namespace reports::imports {

// A model of the zoo by torchtitan's name and size, "llama3" and "8B". Problem at `where`: none.
void name_titan_model(Facts& facts, std::string_view name, std::string_view flavor,
                      const std::string& where);
// asynchronous: the setting of asynchronous tensor parallelism.
void read_titan_degrees(Facts& facts, std::string_view asynchronous);
void read_titan_sharding(Facts& facts, const Given& given);
// REQUIRES: degrees and the model are read.
void read_titan_stages(Facts& facts);
// As releases up to 0.3 state it, in samples.
void read_titan_batch(Facts& facts);
// scaling: of 8-bit products, as --fp8-scaling; "": there are none.
void read_titan_precision(Facts& facts, std::string_view scaling);
void leave_titan_compiler(Facts& facts, std::initializer_list<std::string_view> keys);

// The function of a Python file that is meant, as settings.
struct TitanFunction {
  std::string module;  // "llama3": whose model_registry it calls; "" nobody says
  std::string where;   // of that call
};
// Problems: no function that returns a Trainer.Config, or several and no --config; a section whose
// values the text does not state.
core::Result<TitanFunction> add_titan_function(const File& file, const Given& given,
                                               Settings& settings);

}  // namespace reports::imports
