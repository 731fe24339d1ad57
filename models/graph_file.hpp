#pragma once
// Operator graphs in model files: the keys of a family graph, read and written. Private to models/.

#include "core/json_reader.hpp"
#include "models/spec.hpp"

namespace models {

// Sets graph, loss and layers of the spec. Problems name the operator's line and column.
void read_graph(core::JsonReader& reader, ModelSpec& spec);
void write_graph(const ModelSpec& spec, core::Json& out);

}  // namespace models
