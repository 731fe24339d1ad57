#!/usr/bin/env python3
"""Reads a trace of packets with the protobuf library, and the same trace as JSON beside it.

usage: perfetto_protobuf.py STEP.pftrace STEP.json        exit 77: no protobuf library

Each packet must parse as Perfetto's schema has it (google/perfetto, protos/perfetto/trace:
trace_packet.proto, track_event/track_event.proto, track_descriptor.proto, interned_data.proto),
without unknown fields, and the library must write it back with the same bytes. Slices, messages and
live bytes must be those of the JSON.
"""
import collections
import json
import pathlib
import sys

try:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
except ImportError:
    print("no protobuf library for python3: install python3-protobuf")
    sys.exit(77)

FIELD = descriptor_pb2.FieldDescriptorProto
# Message: fields as (number, name, type, repeated). Types that begin with a capital are messages.
SCHEMA = {
    "EventCategory": [(1, "iid", "uint64", False), (2, "name", "string", False)],
    "EventName": [(1, "iid", "uint64", False), (2, "name", "string", False)],
    "DebugAnnotationName": [(1, "iid", "uint64", False), (2, "name", "string", False)],
    "InternedString": [(1, "iid", "uint64", False), (2, "str", "bytes", False)],
    "InternedData": [(1, "event_categories", "EventCategory", True),
                     (2, "event_names", "EventName", True),
                     (3, "debug_annotation_names", "DebugAnnotationName", True),
                     (29, "debug_annotation_string_values", "InternedString", True)],
    "DebugAnnotation": [(1, "name_iid", "uint64", False), (4, "int_value", "int64", False),
                        (17, "string_value_iid", "uint64", False)],
    "TrackEvent": [(3, "category_iids", "uint64", True),
                   (4, "debug_annotations", "DebugAnnotation", True),
                   (9, "type", "int32", False), (10, "name_iid", "uint64", False),
                   (11, "track_uuid", "uint64", False),
                   (12, "extra_counter_values", "int64", True),
                   (30, "counter_value", "int64", False),
                   (31, "extra_counter_track_uuids", "uint64", True),
                   (47, "flow_ids", "fixed64", True),
                   (48, "terminating_flow_ids", "fixed64", True)],
    "ProcessDescriptor": [(1, "pid", "int32", False), (6, "process_name", "string", False)],
    "ThreadDescriptor": [(1, "pid", "int32", False), (2, "tid", "int32", False),
                         (5, "thread_name", "string", False)],
    "CounterDescriptor": [(3, "unit", "int32", False)],
    "TrackDescriptor": [(1, "uuid", "uint64", False), (2, "name", "string", False),
                        (3, "process", "ProcessDescriptor", False),
                        (4, "thread", "ThreadDescriptor", False),
                        (5, "parent_uuid", "uint64", False),
                        (8, "counter", "CounterDescriptor", False)],
    "TracePacket": [(8, "timestamp", "uint64", False),
                    (10, "trusted_packet_sequence_id", "uint32", False),
                    (11, "track_event", "TrackEvent", False),
                    (12, "interned_data", "InternedData", False),
                    (13, "sequence_flags", "uint32", False),
                    (60, "track_descriptor", "TrackDescriptor", False)],
    "Trace": [(1, "packet", "TracePacket", True)],
}


def trace_class():
    """proto2, as Perfetto has it: repeated numbers are not packed."""
    file = descriptor_pb2.FileDescriptorProto(name="trace.proto", package="p", syntax="proto2")
    for name, fields in SCHEMA.items():
        message = file.message_type.add(name=name)
        for number, field, kind, repeated in fields:
            f = message.field.add(name=field, number=number)
            f.label = FIELD.LABEL_REPEATED if repeated else FIELD.LABEL_OPTIONAL
            if kind[0].isupper():
                f.type, f.type_name = FIELD.TYPE_MESSAGE, ".p." + kind
            else:
                f.type = getattr(FIELD, "TYPE_" + kind.upper())
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    make = getattr(message_factory, "GetMessageClass", None) or \
        message_factory.MessageFactory(pool).GetPrototype
    return make(pool.FindMessageTypeByName("p.Trace"))


def shown_in_packets(path):
    data = pathlib.Path(path).read_bytes()
    trace = trace_class().FromString(data)
    trace.DiscardUnknownFields()
    assert trace.SerializeToString(deterministic=True) == data, "fields that the schema has not"
    tables = {field: {} for _, field, _, _ in SCHEMA["InternedData"]}
    tracks, ranks, sums, open_ = {}, {}, set(), {}
    slices, messages, live = collections.Counter(), collections.defaultdict(set), set()
    for packet in trace.packet:
        assert packet.trusted_packet_sequence_id == 1
        for field, table in tables.items():
            for entry in getattr(packet.interned_data, field):
                assert entry.iid not in table
                table[entry.iid] = entry.str.decode() if "string" in field else entry.name
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            if track.HasField("process"):
                ranks[track.uuid] = track.process.pid - 1
                assert track.process.process_name.startswith(f"rank {track.process.pid - 1}, ")
                continue
            ranks[track.uuid] = ranks[track.parent_uuid]
            tracks[track.uuid] = track.thread.thread_name
            if track.name == "live bytes":
                sums.add(track.uuid)
        if not packet.HasField("track_event"):
            continue
        assert packet.sequence_flags == 2
        event, rank = packet.track_event, ranks[packet.track_event.track_uuid]
        if event.type == 1:
            args = {}
            for a in event.debug_annotations:
                args[tables["debug_annotation_names"][a.name_iid]] = a.int_value \
                    if a.HasField("int_value") else \
                    tables["debug_annotation_string_values"][a.string_value_iid]
            assert open_.get(event.track_uuid) is None, "a slice inside another"
            open_[event.track_uuid] = (
                tables["event_names"][event.name_iid],
                *(tables["event_categories"][c] for c in event.category_iids),
                json.dumps(args, sort_keys=True), packet.timestamp)
            for flow in (*event.flow_ids, *event.terminating_flow_ids):
                messages[flow].add(rank)
        elif event.type == 2:
            begun = open_[event.track_uuid]
            open_[event.track_uuid] = None
            slices[rank, tracks[event.track_uuid], *begun, packet.timestamp - begun[-1]] += 1
        elif event.track_uuid in sums:
            live.add((rank, packet.timestamp, event.counter_value))
    assert not any(open_.values()), "a slice without end"
    return slices, dict(messages), live


def shown_in_json(path):
    threads, slices, live = {}, collections.Counter(), set()
    messages = collections.defaultdict(set)
    for e in json.loads(pathlib.Path(path).read_text())["traceEvents"]:
        rank = e["pid"]
        if e["name"] == "thread_name":
            threads[rank, e["tid"]] = e["args"]["name"]
        elif e["ph"] == "X":
            slices[rank, threads[rank, e["tid"]], e["name"], e["cat"],
                   json.dumps(e["args"], sort_keys=True), round(e["ts"] * 1e3),
                   round(e["dur"] * 1e3)] += 1
        elif e["ph"] in "sf":
            messages[e["id"]].add(rank)
        elif e["ph"] == "C":
            live.add((rank, round(e["ts"] * 1e3), sum(e["args"].values())))
    return slices, dict(messages), live


if __name__ == "__main__":
    packets, text = shown_in_packets(sys.argv[1]), shown_in_json(sys.argv[2])
    for what, a, b in zip(("slices", "messages", "live bytes"), packets, text):
        assert a == b, f"{what}: {len(a)} in packets, {len(b)} in JSON"
    print(f"{len(packets[0])} slices, {len(packets[1])} messages, {len(packets[2])} points")
