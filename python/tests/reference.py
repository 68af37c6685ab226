# SPDX-License-Identifier: MIT
"""What the collectives must give, computed element by element in Python; and elements of all types as bytes.

The values are small whole numbers that every type holds exactly, so that each result is one bit pattern.
"""

import array
import functools
import struct

LETTERS = {
    "int8": "b",
    "uint8": "B",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "uint64": "Q",
    "float32": "f",
    "float64": "d",
    "bool": "?",
}
# Types that Python has no letter for: what carries them, the bits of exponent and mantissa, and the exponent's bias.
CARRIED = {
    "float16": ("H", 5, 10, 15),
    "bfloat16": ("H", 8, 7, 127),
    "float8e4m3": ("B", 4, 3, 7),
    "float8e5m2": ("B", 5, 2, 15),
}
TYPES = [*LETTERS, *CARRIED]
INTEGERS = [name for name in LETTERS if "int" in name]


def encode_float(value, exponent_bits, mantissa_bits, bias):
    """The bits of a number that the format holds exactly, and that is zero or normal."""
    if value == 0:
        return 0
    sign, value, exponent = (1 if value < 0 else 0), abs(value), 0
    while value >= 2:
        value, exponent = value / 2, exponent + 1
    while value < 1:
        value, exponent = value * 2, exponent - 1
    mantissa = (value - 1) * 2**mantissa_bits
    assert mantissa == int(mantissa), "this test uses a number that the type does not hold"
    return sign << (exponent_bits + mantissa_bits) | (exponent + bias) << mantissa_bits | int(mantissa)


def array_of(values, name):
    """A writable array with these elements, and the keyword that names its type."""
    if name in CARRIED:
        letter, *form = CARRIED[name]
        return array.array(letter, [encode_float(value, *form) for value in values]), {"dtype": name}
    packed = bytearray(struct.pack(f"={len(values)}{LETTERS[name]}", *values))
    return memoryview(packed).cast(LETTERS[name]), {}


def poisoned(count, name):
    """An array whose every byte is 0xa5."""
    x, keyword = array_of([0] * count, name)
    memoryview(x).cast("B")[:] = b"\xa5" * memoryview(x).nbytes
    return x, keyword


def bits(x):
    return bytes(memoryview(x).cast("B"))


FOLDS = {
    "sum": lambda a, b: a + b,
    "prod": lambda a, b: a * b,
    "max": max,
    "min": min,
    "band": lambda a, b: a & b,
    "bor": lambda a, b: a | b,
    "bxor": lambda a, b: a ^ b,
}


def ops_of(name):
    """The operations that a type has."""
    if name == "bool":
        return [op for op in FOLDS]
    return ["sum", "prod", "max", "min", "avg"] + (["band", "bor", "bxor"] if name in INTEGERS else [])


def reduced(columns, op, name):
    """One element of the result, from that element of every rank."""
    if name == "bool":
        fold = {"sum": "bor", "max": "bor", "prod": "band", "min": "band"}.get(op, op)
        return functools.reduce(FOLDS[fold], [bool(value) for value in columns])
    if op == "avg":
        mean = sum(columns) / len(columns)
        return int(mean) if name in INTEGERS else mean
    return functools.reduce(FOLDS[op], columns)


def value_at(rank, i, op, name, size):
    """Element i of a rank's array: sums and products stay exact in 8 bits, and means of floats are whole."""
    if name == "bool":
        return (i >> rank) & 1
    if op == "avg" and name not in INTEGERS:
        return (i % 3) + (0 if size == 1 else size if rank == 0 else 0)
    if name not in INTEGERS or op == "prod":
        return 1 + (i + rank) % 2
    return (i * 7 + rank * 3) % 16
