#pragma once
// What of Chakra's schema [chakra] is written and read: schema/protobuf/et_def.proto, package
// ChakraProtoMsg, proto3. Numbers alone.

#include <cstdint>
#include <string_view>

namespace engine::chakra {

enum NodeType : std::uint8_t {
  kInvalid = 0, kMetadata = 1, kMemLoad = 2, kMemStore = 3, kComp = 4, kSend = 5, kReceive = 6,
  kCollective = 7
};
enum CommType : std::uint8_t {
  kAllReduce = 0, kReduce = 1, kAllGather = 2, kGather = 3, kScatter = 4, kBroadcast = 5,
  kAllToAll = 6, kReduceScatter = 7, kReduceScatterBlock = 8, kBarrier = 9
};
inline constexpr std::uint64_t kCommTypes = 10;

// Fields of GlobalMetadata, Node, IOInfo and AttributeProto.
inline constexpr int kVersion = 1;
inline constexpr int kId = 1, kName = 2, kType = 3, kControlDeps = 4, kDataDeps = 5,
                     kDurationMicros = 7, kInputs = 8, kAttribute = 10;
inline constexpr int kIoValues = 1;
inline constexpr int kAttributeName = 1, kDouble = 3, kInt32 = 7, kInt64 = 9, kUint32 = 11,
                     kUint64 = 13, kSint32 = 15, kSint64 = 17, kFixed32 = 19, kFixed64 = 21,
                     kSfixed32 = 23, kSfixed64 = 25, kBool = 27, kString = 29;

// Attributes of ours, which other readers pass over.
inline constexpr std::string_view kPicosecondsName = "duration_picoseconds";
inline constexpr std::string_view kStreamName = "stream", kAlgorithmName = "algorithm",
                                  kWhatName = "what";
inline constexpr std::string_view kVersionText = "0.0.4";
inline constexpr std::string_view kGroupsFile = "comm_groups.json";

}  // namespace engine::chakra
