#pragma once
// Small operator graphs of tests, from the text of their operators.

#include <string>
#include <vector>

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

// inputs: of tokens, {"name": "text", "tokens": 6}; a vocabulary of 16.
inline models::ModelSpec token_model(const std::string& inputs, const std::string& operators) {
  const auto spec = models::parse_spec(
      R"({"schema": "model/1", "name": "small", "family": "graph", "loss": "cross_entropy",
          "vocabulary": 16, "inputs": [)" + inputs + R"(], "operators": [)" + operators + "]}",
      "model.json");
  if (!spec.ok()) FAIL(core::to_text(spec.problems()));
  return *spec;
}

// Operators as text, one after the other.
struct OperatorText {
  std::string all;
  std::string add(const std::string& name, const std::string& kind,
                  const std::vector<std::string>& inputs, const std::string& rest = "") {
    std::string from;
    for (const std::string& input : inputs) from += (from.empty() ? "\"" : ", \"") + input + "\"";
    all += (all.empty() ? "" : ",\n") + std::string(R"({"name": ")") + name + R"(", "kind": ")" +
           kind + R"(", "inputs": [)" + from + "]" + (rest.empty() ? "" : ", " + rest) + "}";
    return name;
  }
  std::string attention(const std::string& n, const std::string& x, const std::string& keys,
                        bool causal) {
    const std::string q = add(n + ".q", "linear", {x}, R"("features": 8, "bias": false)");
    const std::string k = add(n + ".k", "linear", {keys}, R"("features": 8)");
    const std::string v = add(n + ".v", "linear", {keys}, R"("features": 8, "bias": false)");
    const std::string core = add(n + ".core", "attention", {q, k, v},
                                 std::string(R"("heads": 4, "causal": )") +
                                     (causal ? "true" : "false"));
    return add(n + ".out", "linear", {core}, R"("features": 8, "bias": false)");
  }
  std::string feed_forward(const std::string& n, const std::string& x, const char* function) {
    const std::string up = add(n + ".up", "linear", {x}, R"("features": 12)");
    return add(n + ".down", "linear", {add(n + ".act", function, {up})}, R"("features": 8)");
  }
};

// Two layers of Qwen3 by the names of Hugging Face: grouped queries, norms of heads, rotation, a
// gated feed-forward.
inline models::ModelSpec qwen3_layers() {
  OperatorText t;
  std::string x = t.add("embed_tokens", "embedding", {"text"}, R"("features": 8)");
  for (const std::string layer : {"layers.0.", "layers.1."}) {
    const auto matrix = [&](const std::string& name, const std::string& from, int features) {
      return t.add(layer + name, "linear", {from},
                   R"("bias": false, "features": )" + std::to_string(features));
    };
    const std::string in = t.add(layer + "input_layernorm", "rms_norm", {x});
    const std::string q = matrix("self_attn.q_proj", in, 16);
    const std::string k = matrix("self_attn.k_proj", in, 8);
    const std::string v = matrix("self_attn.v_proj", in, 8);
    const std::string core = t.add(
        layer + "self_attn.core", "attention", {q, k, v},
        R"("heads": 4, "kv_heads": 2, "causal": true, "qk_norm": true, "rotary_base": 100)");
    x = t.add(layer + "add", "add", {x, matrix("self_attn.o_proj", core, 8)});
    const std::string mid = t.add(layer + "post_attention_layernorm", "rms_norm", {x});
    const std::string gate = matrix("mlp.gate_proj", mid, 12), up = matrix("mlp.up_proj", mid, 12);
    const std::string act = t.add(layer + "mlp.act", "swiglu", {gate, up});
    x = t.add(layer + "add2", "add", {x, matrix("mlp.down_proj", act, 8)});
  }
  t.add("lm_head", "linear", {t.add("norm", "rms_norm", {x})},
        R"("features": 16, "bias": false)");
  return token_model(R"({"name": "text", "tokens": 6})", t.all);
}

}  // namespace tests
