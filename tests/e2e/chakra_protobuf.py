#!/usr/bin/env python3
"""Reads execution traces with the protobuf library, which shares nothing with this product.

usage: chakra_protobuf.py FOLDER        exit 77: no protobuf library
       chakra_protobuf.py --write FILE [VERSION]  a trace as another writer makes it; VERSION
                                        none: without metadata, as in November 2023

Each message must parse as the schema has it (mlcommons/chakra, schema/protobuf/et_def.proto),
without unknown fields, and the library must write it back with the same bytes.
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
SCALARS = ["double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32",
           "fixed64", "sfixed32", "sfixed64", "bool", "string", "bytes"]


def schema():
    """The messages of the schema that files consist of, as classes by name."""
    file = descriptor_pb2.FileDescriptorProto(name="et_def.proto", package="ChakraProtoMsg",
                                              syntax="proto3")

    def message(name, fields):
        added = file.message_type.add(name=name)
        for number, field, kind, repeated in fields:
            f = added.field.add(name=field, number=number)
            f.label = FIELD.LABEL_REPEATED if repeated else FIELD.LABEL_OPTIONAL
            if kind[0].isupper():
                f.type, f.type_name = FIELD.TYPE_MESSAGE, ".ChakraProtoMsg." + kind
            else:
                f.type = getattr(FIELD, "TYPE_" + kind.upper())
        return added

    for scalar in SCALARS:
        message(scalar.capitalize() + "List", [(1, "values", scalar, True)])
    attribute = message("AttributeProto", [(1, "name", "string", False),
                                           (2, "doc_string", "string", False)])
    attribute.oneof_decl.add(name="value")
    for i, scalar in enumerate(SCALARS):
        for number, suffix, kind in ((3 + 2 * i, "_val", scalar),
                                     (4 + 2 * i, "_list", scalar.capitalize() + "List")):
            f = attribute.field.add(name=scalar + suffix, number=number, oneof_index=0,
                                    label=FIELD.LABEL_OPTIONAL)
            if suffix == "_val":
                f.type = getattr(FIELD, "TYPE_" + kind.upper())
            else:
                f.type, f.type_name = FIELD.TYPE_MESSAGE, ".ChakraProtoMsg." + kind
    message("GlobalMetadata", [(1, "version", "string", False),
                               (2, "attr", "AttributeProto", True)])
    message("IOInfo", [(1, "values", "string", False), (2, "shapes", "string", False),
                       (3, "types", "string", False)])
    message("Node", [(1, "id", "uint64", False), (2, "name", "string", False),
                     (3, "type", "int32", False), (4, "ctrl_deps", "uint64", True),
                     (5, "data_deps", "uint64", True), (6, "start_time_micros", "uint64", False),
                     (7, "duration_micros", "uint64", False), (8, "inputs", "IOInfo", False),
                     (9, "outputs", "IOInfo", False), (10, "attr", "AttributeProto", True)])
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    make = getattr(message_factory, "GetMessageClass", None) or \
        message_factory.MessageFactory(pool).GetPrototype
    return {name: make(pool.FindMessageTypeByName("ChakraProtoMsg." + name))
            for name in ("GlobalMetadata", "Node")}


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def messages(data):
    at = 0
    while at < len(data):
        size, at = varint(data, at)
        assert at + size <= len(data), "a message longer than the file"
        yield data[at:at + size]
        at += size


def value_of(attribute):
    return getattr(attribute, attribute.WhichOneof("value"))


def check_file(path, classes, groups, messages_open):
    rank = int(path.name.split(".")[-2])
    seen, kinds = set(), collections.Counter()
    for index, data in enumerate(messages(path.read_bytes())):
        parsed = classes["Node" if index else "GlobalMetadata"].FromString(data)
        assert parsed.SerializeToString(deterministic=True) == data, f"{path}: message {index}"
        if index == 0:
            assert parsed.version == "0.0.4", parsed.version
            continue
        assert parsed.id not in seen and set(parsed.ctrl_deps) | set(parsed.data_deps) <= seen
        seen.add(parsed.id)
        kinds[parsed.type] += 1
        attributes = {a.name: value_of(a) for a in parsed.attr}
        assert attributes["is_cpu_op"] is False
        if parsed.type == 7:
            group = attributes["pg_name"]  # "0" is all ranks, and ASTRA-sim refuses its list
            assert rank in groups[group] if group != "0" else group not in groups
            assert attributes["comm_type"] in range(10) and attributes["comm_size"] > 0
        if parsed.type in (5, 6):
            assert attributes["comm_src" if parsed.type == 5 else "comm_dst"] == rank
            key = tuple(attributes[k] for k in ("comm_src", "comm_dst", "comm_tag", "comm_size"))
            messages_open[key] += 1 if parsed.type == 5 else -1
    return kinds


def check_folder(folder):
    classes = schema()
    groups = json.loads((folder / "comm_groups.json").read_text())
    messages_open, total = collections.Counter(), collections.Counter()
    files = sorted(folder.glob("*.et"))
    assert files, "no execution traces"
    for path in files:
        total += check_file(path, classes, groups, messages_open)
    assert not any(messages_open.values()), "sends without receives"
    print(f"{len(files)} files, nodes by type {dict(sorted(total.items()))}")


def write(path, version="0.0.4"):
    """One rank: 5 us, then 7 us that depends on it; dependencies and attributes as others have."""
    classes = schema()
    out = b""
    first = classes["Node"](id=3, name="aten::mm", type=4, duration_micros=5)
    first.attr.add(name="is_cpu_op", bool_val=False)
    first.attr.add(name="tensor_size", uint64_val=17)
    second = classes["Node"](id=9, name="aten::add", type=4, duration_micros=7, data_deps=[3])
    second.attr.add(name="involved_dim").bool_list.values.extend([True, False])
    second.attr.add(name="stream", int64_val=7)
    metadata = [] if version == "none" else [classes["GlobalMetadata"](version=version)]
    for message in (*metadata, first, second):
        data = message.SerializeToString()
        assert len(data) < 128
        out += bytes([len(data)]) + data
    pathlib.Path(path).write_bytes(out)


if __name__ == "__main__":
    if sys.argv[1] == "--write":
        write(*sys.argv[2:])
    else:
        check_folder(pathlib.Path(sys.argv[1]))
