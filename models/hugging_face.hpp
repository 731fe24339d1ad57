#pragma once
// Hugging Face config.json to ModelSpec, one function per model_type. Private to models/.

#include <string>

#include "core/json_reader.hpp"
#include "models/spec.hpp"

namespace models {

// REQUIRES: the object has "model_type". Problems go to the reader; a spec read with problems is
// not to be used. like: the type whose keys one of an unknown type is read by; "": none. Of a model
// of several parts, the text_config is read.
ModelSpec read_hugging_face(core::JsonReader& reader, const std::string& name,
                            const std::string& like = "");

}  // namespace models
