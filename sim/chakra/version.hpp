#pragma once
// Which version of Chakra's schema [chakra] a file has. Versions 0.0.1 to 0.0.3, until October
// 2023, number the fields of a node otherwise and carry no version. Later files name their version
// in their first message; some of November 2023 lack that message or the version in it.
// Pure; thread-safe.

#include <string_view>

#include "core/protobuf.hpp"

namespace engine::chakra {

inline constexpr std::string_view kReadVersions = "Chakra's schema 0.0.4 or 1.x";

// As GlobalMetadata states it.
bool reads_version(std::string_view version);

// Whether the first message of a file is a node already: only nodes have numbers for fields.
bool is_node(core::ProtoReader message);

// The version that only has such nodes; empty where the node may be of a version that is read.
// Call it for files that state no version: later ones may add the fields that tell old nodes.
std::string_view old_version(core::ProtoReader node);

}  // namespace engine::chakra
