#!/usr/bin/env python3
"""Write the Parquet files beside this script and what pyarrow reads from them (NAME.json).

    pip install pyarrow
    tests/data/parquet/make_parquet.py

Each table is small; together they meet every codec, page version and encoding that the reader knows, with nulls at every
level of a nested list. In the expected rows fields that are null are left out, as data/parquet/parquet.h says.
"""
import json
import pathlib

import pyarrow as pa
import pyarrow.parquet as pq

here = pathlib.Path(__file__).resolve().parent

CALL = pa.struct([("id", pa.string()), ("function", pa.struct([("name", pa.string()), ("arguments", pa.string())]))])
MESSAGE = pa.struct([("role", pa.string()), ("content", pa.string()), ("tool_calls", pa.list_(CALL)),
                     ("loss_weight", pa.float64()), ("train", pa.bool_())])
SCHEMA = pa.schema([("id", pa.int64()), ("messages", pa.list_(MESSAGE)), ("tools", pa.list_(pa.string())),
                    ("chat_template_kwargs", pa.map_(pa.string(), pa.string()))])


def rows(n):
    made = []
    for i in range(n):
        if i % 11 == 3:
            made.append({"id": i, "messages": None, "tools": [], "chat_template_kwargs": None})
            continue
        if i % 11 == 5:
            made.append({"id": None, "messages": [], "tools": None, "chat_template_kwargs": []})
            continue
        messages = [{"role": "user", "content": f"What is {i} times {i}? " + "\u00e9\U0001f600" * (i % 3)}]
        if i % 4 == 1:
            messages.append({"role": "assistant", "content": None, "train": True, "tool_calls": [
                {"id": f"c{i}", "function": {"name": "times", "arguments": json.dumps({"a": i, "b": i})}},
                {"id": None, "function": None}, None]})
            messages.append(None if i % 8 == 5 else {"role": "tool", "content": str(i * i), "tool_calls": []})
        messages.append({"role": "assistant", "content": f"It is {i * i}.", "loss_weight": float(i % 2), "train": i % 2 == 0})
        made.append({"id": i, "messages": messages, "tools": [None, "{}"] if i % 5 == 0 else None,
                     "chat_template_kwargs": [("enable_thinking", str(i % 2 == 0)), ("empty", None)] if i % 3 == 0 else None})
    return made


def without_nulls(value):
    if isinstance(value, dict):
        return {k: without_nulls(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [without_nulls(v) for v in value]
    return value


def expected(path, maps=()):
    table = pq.read_table(path).to_pylist()
    for row in table:
        for key in maps:
            if row.get(key) is not None:
                row[key] = dict(row[key])
        row.pop("id", None)  # no shape reads it
    return [without_nulls(row) for row in table]


def write(name, table, maps=(), answer=None, **options):
    """answer: the name of the file of expected rows, when several tables share it."""
    path = here / f"{name}.parquet"
    pq.write_table(table, path, **options)
    text = json.dumps(expected(path, maps), ensure_ascii=False, separators=(",", ":")) + "\n"
    answer_path = here / f"{answer or name}.json"
    if answer and answer in written:
        assert answer_path.read_text() == text, name
    answer_path.write_text(text)
    written.add(answer or name)


written = set()


nested = pa.Table.from_pylist(rows(37), schema=SCHEMA)
for codec in ("none", "snappy", "gzip", "zstd"):
    for version in ("1.0", "2.0"):
        for dictionary in (True, False):
            name = f"nested_{codec}_v{version[0]}_{'dictionary' if dictionary else 'plain'}"
            write(name, nested, ("chat_template_kwargs",), "nested", compression=codec, data_page_version=version,
                  use_dictionary=dictionary, row_group_size=16, data_page_size=256, write_batch_size=5)

# Flat text, with the encodings of deltas.
words = [{"instruction": f"Spell the number {i}", "input": None if i % 3 else "", "output": "abc" * (i % 7) + str(i),
          "system": None if i % 2 else "You spell."} for i in range(200)]
flat = pa.Table.from_pylist(words, schema=pa.schema([(k, pa.string()) for k in ("instruction", "input", "output", "system")]))
write("flat_deltas", flat, use_dictionary=False, compression="none", data_page_version="2.0", row_group_size=128,
      column_encoding={"instruction": "DELTA_BYTE_ARRAY", "input": "PLAIN", "output": "DELTA_LENGTH_BYTE_ARRAY",
                       "system": "DELTA_BYTE_ARRAY"})
numbers = pa.Table.from_pylist(
    [{"prompt": [{"role": "user", "content": "n", "weight": (i * 7919) % 1000 - 500 if i % 5 else None, "train": i % 3 == 0}],
      "completion": [{"role": "assistant", "content": "m", "weight": -(1 << 40) * (i % 4), "train": None}]} for i in range(280)],
    schema=pa.schema([(k, pa.list_(pa.struct([("role", pa.string()), ("content", pa.string()), ("weight", pa.int64()),
                                              ("train", pa.bool_())]))) for k in ("prompt", "completion")]))
write("numbers_deltas", numbers, use_dictionary=False, compression="zstd", data_page_version="2.0", column_encoding={
    "prompt.list.element.weight": "DELTA_BINARY_PACKED", "completion.list.element.weight": "DELTA_BINARY_PACKED",
    "prompt.list.element.train": "RLE", "completion.list.element.train": "RLE"})
required = pa.schema([pa.field("text", pa.string(), nullable=False)])
write("required_text", pa.Table.from_pylist([{"text": f"line {i}"} for i in range(20)], schema=required), compression="none", use_dictionary=False)
# The old form of a list: the element is the repeated field.
write("old_lists", nested.slice(0, 12), ("chat_template_kwargs",), use_compliant_nested_type=False, compression="gzip")
# A shard without rows has columns without pages.
write("no_rows", nested.slice(0, 0), ("chat_template_kwargs",), compression="none")
# An encoding that is not read.
write("byte_stream_split", pa.table({"messages": pa.array([1.5, 2.5])}), use_dictionary=False, compression="none",
      column_encoding={"messages": "BYTE_STREAM_SPLIT"})
# Two columns, and two fields of a struct, of one name: refused, so there are no expected rows.
one = pa.array(["a"])
pq.write_table(pa.Table.from_arrays([one, one], names=["text", "text"]), here / "two_columns.parquet", compression="none",
               use_dictionary=False)
turn = pa.StructArray.from_arrays([one, one, one], fields=[pa.field(name, pa.string()) for name in ("role", "content", "role")])
pq.write_table(pa.table({"messages": pa.ListArray.from_arrays([0, 1], turn)}), here / "two_fields.parquet",
               compression="none", use_dictionary=False)
