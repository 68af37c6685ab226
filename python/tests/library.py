# SPDX-License-Identifier: MIT
"""Compares hoop/_library.py with include/hoop.h. --stub: prints C with every function, of an old version."""

import ast
import ctypes
import re
import sys
import unittest
from pathlib import Path

import hoop
from hoop import _library
from hoop._library import lib, prototypes

ROOT = Path(__file__).resolve().parents[2]
HEADER = re.sub(r"/\*.*?\*/", "", (ROOT / "include/hoop.h").read_text(), flags=re.S)


def enum(name):
    body = re.search(r"typedef enum %s \{(.*?)\}" % name, HEADER, re.S).group(1)
    numbers: dict[str, int] = {}
    for line in re.sub(r"/\*.*?\*/", "", body, flags=re.S).split(","):
        key, _, value = line.partition("=")
        numbers[key.strip()] = int(value) if value else len(numbers)
    return numbers


def functions():
    """name: (result, [argument types])"""
    found = re.findall(r"^(?!typedef)([a-z_][\w ]*?[ *]+)(hoop_\w+)\(([^;{]*?)\);", HEADER, re.M)
    return {name: (kind(result + "x"), [kind(a) for a in arguments.split(",")]) for result, name, arguments in found}


def kind(argument):
    """The type of an argument, without its name and const."""
    argument = re.sub(r"\bconst\b", "", argument).strip()
    if argument == "void":
        return "void"
    match = re.match(r"(.*?)\b\w+$", argument)
    return match.group(1).replace(" ", "")


C_TYPES = {
    "int": ctypes.c_int,
    "size_t": ctypes.c_size_t,
    "uint64_t": ctypes.c_uint64,
    "int64_t": ctypes.c_int64,
    "uint32_t": ctypes.c_uint32,
    "int32_t": ctypes.c_int32,
    "hoop_result": ctypes.c_int,
    "hoop_dtype": ctypes.c_int,
    "hoop_op": ctypes.c_int,
    "hoop_order": ctypes.c_int,
    "hoop_wire": ctypes.c_int,
    "unsigned": ctypes.c_uint,
    "void": None,
    "void*": ctypes.c_void_p,
    "size_t*": ctypes.c_void_p,
    "hoop_done_fn*": ctypes.c_void_p,
    "hoop_log_fn*": ctypes.c_void_p,
    "hoop_interrupt_fn*": ctypes.c_void_p,
    "char*": ctypes.c_char_p,
    "int*": ctypes.POINTER(ctypes.c_int),
    "uint64_t*": ctypes.POINTER(ctypes.c_uint64),
    "hoop_error*": ctypes.POINTER(_library.Error),
    "hoop_stats*": ctypes.POINTER(_library.Stats),
    "hoop_call_options*": ctypes.POINTER(_library.CallOptions),
    **{f"hoop_{what}*": ctypes.c_void_p for what in ("comm", "work", "config", "server")},
    **{f"hoop_{what}**": ctypes.POINTER(ctypes.c_void_p) for what in ("comm", "work", "server")},
}
# A size_t * that is not an array of one number a rank.
OUT_NUMBER = {"hoop_wait_any": 3, "hoop_received": 1, "hoop_work_received": 2}


# Functions of C that the package does not call.
UNUSED = {
    "hoop_work_wait": "does not show after an exception if it has freed; hoop.torch calls it where no signal comes",
    "hoop_wait_all": "would not heed Ctrl-C: hoop.wait_all waits for one work after the other",
}


class Library(unittest.TestCase):
    def test_numbers(self):
        self.assertEqual(enum("hoop_result"), _library.RESULTS)
        self.assertEqual(enum("hoop_dtype"), {f"HOOP_{name.upper()}": n for name, n in _library.DTYPES.items()})
        orders = {f"HOOP_ORDER_{name.upper()}": n for name, n in _library.ORDERS.items()}
        self.assertEqual(enum("hoop_order"), orders | {"HOOP_ORDER_SETTING": 0})
        wires = {f"HOOP_WIRE_{name.upper()}": n for name, n in _library.WIRES.items()}
        self.assertEqual(enum("hoop_wire"), wires | {"HOOP_WIRE_SETTING": 0})
        self.assertEqual(enum("hoop_op"), {f"HOOP_{name.upper()}": n for name, n in _library.OPS.items()})
        for name in "SECRET_TEXT", "SERVER_TEXT", "ADDRESS_TEXT":
            self.assertIn(f"HOOP_{name} = {getattr(_library, name)} ", HEADER)

    def test_structs(self):
        for name, struct in (
            ("error", _library.Error),
            ("stats", _library.Stats),
            ("signal", _library.Signal),
            ("call_options", _library.CallOptions),
        ):
            body = re.search(r"typedef struct hoop_%s \{(.*?)\}" % name, HEADER, re.S).group(1)
            members = re.findall(r"(\w+) (\*?)(\w+)(?:\[(\d+)\])?;", body)
            wanted = [
                (n, ctypes.c_void_p if star else ctypes.c_char * int(room) if room else C_TYPES[t])
                for t, star, n, room in members
            ]
            self.assertEqual(wanted, struct._fields_)

    def test_prototypes(self):
        wanted, table = functions(), prototypes()
        self.assertGreater(len(wanted), 80)
        self.assertEqual(set(wanted), set(table))
        for name, (result, arguments) in wanted.items():
            kinds = [] if arguments == ["void"] else [C_TYPES[a] for a in arguments]
            if name in OUT_NUMBER:
                kinds[OUT_NUMBER[name]] = ctypes.POINTER(ctypes.c_size_t)
            self.assertEqual((C_TYPES[result], kinds), tuple(table[name]), name)

    def test_every_function_is_in_the_package(self):
        """Each function of hoop.h is called by the package, or is listed in UNUSED with the reason."""
        sources = [p.read_text() for p in (ROOT / "python/hoop").glob("*.py") if p.name != "_library.py"]
        called = {f"hoop_{name}" for text in sources for name in re.findall(r"\blib\.hoop_(\w+)", text)}
        called |= {f"hoop_{name}" for name in re.findall(r"\blibrary\.hoop_(\w+)", Path(_library.__file__).read_text())}
        for name in {name for text in sources for name in re.findall(r"_form\(\"(\w+)\"\)", text)}:
            called |= {f"hoop_{name}", f"hoop_i{name}", f"hoop_{name}_on_stream"}
            for method in name, f"i{name}":
                self.assertTrue(getattr(hoop.Comm, method).__doc__, method)
        self.assertEqual(set(UNUSED), set(functions()) - called)

    def test_version(self):
        self.assertEqual(lib.hoop_version().decode(), hoop.__version__)
        self.assertIn(f'\nversion = "{hoop.__version__}"\n', (ROOT / "python/pyproject.toml").read_text())

    def test_the_library_is_local(self):
        self.assertFalse(hasattr(ctypes.CDLL(None), "hoop_version"))

    def test_the_process(self):
        lines = []
        hoop.log_to(lambda level, line: lines.append((level, line)))
        hoop.Comm(debug="info").destroy()
        hoop.log_to(None)
        self.assertRaises(TypeError, hoop.log_to, 5)
        self.assertEqual({2}, {level for level, _ in lines})
        self.assertEqual([], [line for _, line in lines if "\n" in line])
        self.assertIn("debug=info", "".join(line for _, line in lines))
        self.assertTrue(hoop.gpu_describe())
        try:
            self.assertGreaterEqual(hoop.gpu_ordinal(), 0)
        except hoop.HoopError as why:
            self.assertTrue(str(why))

    def test_grow(self):
        with hoop.Comm(rank=0, size=1, rendezvous="") as comm:
            self.assertIs(comm, comm.grow())

    def test_shrink(self):
        with hoop.Comm() as comm:
            comm.barrier()
            self.assertEqual((0, (0, 0)), (comm.epoch, comm.history))
            with comm.shrink() as rest:
                self.assertEqual((1, 1, (1, 1)), (rest.size, rest.epoch, rest.history))
                rest.barrier()
            with self.assertRaises(hoop.HoopError) as caught:
                comm.shrink()
            self.assertEqual("HOOP_ERR_INVALID_USAGE", caught.exception.name)
            with self.assertRaisesRegex(hoop.HoopError, "called hoop_comm_shrink"):
                comm.barrier()
            with self.assertRaises(hoop.HoopError):
                comm.destroy()

    def test_names_for_type_checkers(self):
        """They see each public name, and no __getattr__ of the module, which would allow every other name."""
        body = ast.parse(Path(hoop.__file__).read_text()).body
        shown = [part for part in body if isinstance(part, ast.If) and ast.unparse(part.test) == "TYPE_CHECKING"]
        names = [name.asname for part in shown for line in part.body for name in line.names]
        self.assertEqual(hoop.__all__, sorted(names))
        self.assertNotIn("__getattr__", [part.name for part in body if isinstance(part, ast.FunctionDef)])

    def test_public_names(self):
        for name in hoop.__all__:
            self.assertTrue(getattr(hoop, name).__doc__, name)
        with self.assertRaisesRegex(AttributeError, "no attribute 'nothing'"):
            hoop.nothing


def print_stub():
    for name in prototypes():
        lacks = name == "hoop_iallreduce_with"
        print("#ifndef LACKS\n" * lacks, end="")
        print(
            'const char *hoop_version(void) { return "0.0.9"; }'
            if name == "hoop_version"
            else f"void {name}(void) {{}}"
        )
        print("#endif\n" * lacks, end="")


if __name__ == "__main__":
    print_stub() if sys.argv[1:] == ["--stub"] else unittest.main()
