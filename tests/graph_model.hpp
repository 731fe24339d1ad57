#pragma once
// Small operator graphs of tests, from the text of their operators.

#include <string>

#include "models/spec_file.hpp"
#include "tests/catch.hpp"

namespace tests {

// input: a shape, "[3, 24, 22]". loss: "cross_entropy" or "squared_error".
inline models::ModelSpec graph_model(const std::string& operators, const std::string& input,
                                     const std::string& loss) {
  const auto spec = models::parse_spec(
      R"({"schema": "model/1", "name": "small", "family": "graph", "loss": ")" + loss +
          R"(", "input": {"name": "x", "shape": )" + input + R"(}, "operators": [)" + operators +
          "]}",
      "model.json");
  if (!spec.ok()) FAIL(core::to_text(spec.problems()));
  return *spec;
}

}  // namespace tests
