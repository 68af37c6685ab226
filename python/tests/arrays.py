# SPDX-License-Identifier: MIT
"""What hoop.arrays sees in arrays of all kinds, and what it refuses. --numpy: those of numpy (and ml_dtypes)."""

import array
import ctypes
import gc
import sys
import unittest
from unittest import mock

import hoop
from hoop import arrays
from hoop._library import DTYPES
from hoop.arrays import name_of, view

MEMORY = (ctypes.c_float * 12)(*range(12))
ADDRESS = ctypes.addressof(MEMORY)


def capsule_of(pointer, name):
    new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
        ("PyCapsule_New", ctypes.pythonapi)
    )
    return new(pointer, name, None)


class Pack:
    """An array with DLPack and nothing else."""

    def __init__(self, shape, strides=None, code=2, bits=32, lanes=1, device=1, offset=0, read_only=None):
        self.tensor = arrays._Versioned(1, 0, None, None, bool(read_only))
        self.shape = (ctypes.c_int64 * len(shape))(*shape)
        self.strides = strides and (ctypes.c_int64 * len(shape))(*strides)
        t = self.tensor.tensor
        t.data, t.device, t.ndim, t.code, t.bits, t.lanes, t.offset = (
            ADDRESS,
            device,
            len(shape),
            code,
            bits,
            lanes,
            offset,
        )
        t.shape, t.strides = self.shape, self.strides or None
        self.versioned = read_only is not None
        self.stream = None

    def __dlpack_device__(self):
        return self.tensor.tensor.device, 0

    def __dlpack__(self, *, stream=None, **more):
        self.stream = stream
        if not self.versioned and more:
            raise TypeError("no max_version")
        if self.versioned:
            return capsule_of(ctypes.addressof(self.tensor), b"dltensor_versioned")
        return capsule_of(ctypes.addressof(self.tensor.tensor), b"dltensor")


class VersionedPack(Pack):
    pass


class Cuda:
    """An array with __cuda_array_interface__ and nothing else."""

    def __init__(self, shape, typestr="<f4", strides=None, read_only=False, **more):
        self.__cuda_array_interface__ = {
            "shape": shape,
            "typestr": typestr,
            "data": (ADDRESS, read_only),
            "version": 3,
            "strides": strides,
            **more,
        }


class CudaPack(Pack):
    """Both, as an array of cupy has."""

    @property
    def __cuda_array_interface__(self):
        return {"stream": 7}


class Arrays(unittest.TestCase):
    def sees(self, x, address, count, name, stream=None, writes=True, dtype=None):
        found = view(x, writes, dtype)
        self.assertEqual((address, count, name, stream), (found[0], found[1], name_of(found[2]), found[3]))

    def refuses(self, error, text, x, writes=True, dtype=None):
        with self.assertRaisesRegex(error, text):
            view(x, writes, dtype)

    def test_letters(self):
        for letter, name in zip(
            "bBhHiIlLqQfd", "int8 uint8 int16 uint16 int32 uint32 int64 uint64 int64 uint64 " "float32 float64".split()
        ):
            x = array.array(letter, [1, 2, 3])
            self.sees(x, x.buffer_info()[0], 3, name)
        x = memoryview(bytearray(4)).cast("?")
        self.assertEqual(("bool", 4), (name_of(view(x, True)[2]), view(x, True)[1]))
        for own, name in (ctypes.c_long, "int64"), (ctypes.c_bool, "bool"), (ctypes.c_double, "float64"):
            x = (own * 2)()
            self.sees(x, ctypes.addressof(x), 2, name)

    def test_buffers(self):
        data = bytes(range(8))
        address = view(data, False)[0]
        self.assertEqual(data, ctypes.string_at(address, 8))
        self.assertEqual((8, "uint8"), (view(data, False)[1], name_of(view(data, False)[2])))
        self.refuses(ValueError, "read-only builtins.bytes cannot take a result: pass out=", data)
        self.refuses(ValueError, "gaps between its elements", memoryview(bytearray(8))[::2])
        self.refuses(TypeError, "elements of the type 'c'", memoryview(bytearray(8)).cast("c"))
        self.refuses(TypeError, "elements of the type", (ctypes.c_float.__ctype_be__ * 2)())
        self.assertEqual(0, view(array.array("i"), True)[1])
        self.assertEqual(6, view(memoryview(bytearray(6)).cast("B", (2, 3)), True)[1])

    def test_a_buffer_is_kept(self):
        x = bytearray(8)
        keep = view(x, True)[4]
        with self.assertRaises(BufferError):  # it is in use
            x.extend(b"more")
        del keep
        gc.collect()
        x.extend(b"more")

    def test_names(self):
        x = array.array("H", [1])
        self.sees(x, x.buffer_info()[0], 1, "bfloat16", dtype="bfloat16")
        self.refuses(
            ValueError, "'float32' has 4 bytes, and the elements of this array.array have 2", x, dtype="float32"
        )
        self.refuses(ValueError, "dtype='half': hoop has int8", x, dtype="half")

    def test_no_array(self):
        for x in None, 3, "text", [1.0], object():
            self.refuses(TypeError, "is no array that hoop can use", x)

    def test_dlpack(self):
        for kind, read_only in (Pack, None), (VersionedPack, False):
            self.sees(kind((3, 4), read_only=read_only), ADDRESS, 12, "float32")
            self.sees(kind((3, 4), (4, 1), read_only=read_only), ADDRESS, 12, "float32")
            self.sees(kind((3, 1, 4), (4, 99, 1), read_only=read_only), ADDRESS, 12, "float32")
            self.sees(kind((0, 4), (7, 9), read_only=read_only), ADDRESS, 0, "float32")
            self.sees(kind((), read_only=read_only), ADDRESS, 1, "float32")
            self.sees(kind((2,), offset=8, read_only=read_only), ADDRESS + 8, 2, "float32")
            self.refuses(ValueError, "gaps between", kind((3, 4), (1, 3), read_only=read_only))
            self.refuses(ValueError, "gaps between", kind((3, 2), (4, 1), read_only=read_only))
        self.refuses(ValueError, "read-only", VersionedPack((3,), read_only=True))
        self.sees(VersionedPack((3,), read_only=True), ADDRESS, 3, "float32", writes=False)

    def test_types_of_dlpack(self):
        wanted = {
            (0, 8): "int8",
            (1, 16): "uint16",
            (2, 64): "float64",
            (4, 16): "bfloat16",
            (6, 8): "bool",
            (10, 8): "float8e4m3",
            (12, 8): "float8e5m2",
        }
        for (code, bits), name in wanted.items():
            self.sees(Pack((2,), code=code, bits=bits), ADDRESS, 2, name)
        for code, bits, lanes in (5, 64, 1), (2, 32, 4), (0, 4, 1), (7, 8, 1):
            self.refuses(TypeError, "DLPack's code:bits", Pack((2,), code=code, bits=bits, lanes=lanes))

    def test_devices(self):
        x = Pack((2,), device=2)
        self.sees(x, ADDRESS, 2, "float32")
        self.assertEqual(-1, x.stream)  # hoop orders the stream, the export must not wait
        self.sees(CudaPack((2,), device=2), ADDRESS, 2, "float32", stream=7)
        self.sees(CudaPack((2,), device=1), ADDRESS, 2, "float32")
        self.refuses(TypeError, "device of DLPack's type 10", Pack((2,), device=10))

    def test_cuda_array_interface(self):
        self.sees(Cuda((3, 4)), ADDRESS, 12, "float32")
        self.sees(Cuda((3, 4), strides=(16, 4), stream=5), ADDRESS, 12, "float32", stream=5)
        self.sees(Cuda((2,), "|b1"), ADDRESS, 2, "bool")
        self.sees(Cuda((2,), "<u2"), ADDRESS, 2, "uint16")
        self.sees(Cuda((2,), "<f2"), ADDRESS, 2, "float16")
        self.refuses(ValueError, "gaps between", Cuda((3, 4), strides=(4, 12)))
        self.refuses(ValueError, "read-only", Cuda((3,), read_only=True))
        self.refuses(TypeError, "elements of the type '<c8'", Cuda((2,), "<c8"))
        self.refuses(TypeError, "elements of the type '>f4'", Cuda((2,), ">f4"))

    def test_a_stream_has_no_i_form(self):
        with hoop.Comm() as comm, self.assertRaisesRegex(ValueError, "ordered in a CUDA stream"):
            comm.iallreduce(Cuda((3,), stream=1))

    def test_streams(self):
        """An array's stream, and the call's, which wins, reach the form of libhoop that is ordered in a stream."""
        calls = []
        streamed = None, None, lambda *arguments: calls.append(arguments) or 0
        with hoop.Comm() as comm, mock.patch("hoop.comm._ALLREDUCE", streamed):
            handle = comm.handle
            comm.allreduce(Cuda((3,), stream=5))
            comm.allreduce(Cuda((3,)), stream=6)
            comm.allreduce(Cuda((3,), stream=5), stream=7)
        self.assertEqual([(ADDRESS, ADDRESS, 3, DTYPES["float32"], 0, handle, s) for s in (5, 6, 7)], calls)


class Numpy(unittest.TestCase):
    def test_types(self):
        for name in set(DTYPES) - {"bfloat16", "float8e4m3", "float8e5m2"}:
            x = numpy.zeros((3, 2), name)
            found = view(x, True)
            self.assertEqual((x.ctypes.data, 6, name, None), (*found[:2], name_of(found[2]), found[3]))
        for name in "complex64", "U3", "datetime64[s]", "longdouble", ">f4", "O":
            with self.assertRaises(TypeError, msg=name):
                view(numpy.zeros(3, name), True)
        self.assertRaisesRegex(TypeError, "of the type complex64 in a numpy", view, numpy.zeros(3, "complex64"), True)

    def test_gaps_and_read_only(self):
        x = numpy.zeros((4, 4), "f")
        for part in x[:, 1], x[::2], x[::-1]:
            self.assertRaisesRegex(ValueError, "gaps between", view, part, True)
        other = numpy.zeros((2, 3), order="F")
        self.assertRaisesRegex(ValueError, r"Fortran's order: pass its transpose, x\.T,", view, other, True)
        self.assertEqual(other.ctypes.data, view(other.T, True)[0])
        self.assertEqual(x[2:].ctypes.data, view(x[2:], True)[0])
        x.flags.writeable = False
        self.assertEqual(x.ctypes.data, view(x, False)[0])
        with self.assertRaisesRegex(ValueError, "read-only numpy.ndarray"):
            view(x, True)

    def test_types_of_others(self):
        try:
            import ml_dtypes
        except ImportError:
            self.skipTest("there is no ml_dtypes")
        for theirs, ours in ("bfloat16", "bfloat16"), ("float8_e4m3fn", "float8e4m3"), ("float8_e5m2", "float8e5m2"):
            for x in numpy.ones((2, 3), theirs), numpy.ones((), theirs), numpy.ones(0, theirs):
                found = view(x, True)
                self.assertEqual((x.ctypes.data, x.size, ours), (*found[:2], name_of(found[2])))
        self.assertRaisesRegex(ValueError, "gaps between", view, numpy.zeros((4, 4), "bfloat16")[:, 1], True)
        with self.assertRaisesRegex(TypeError, "name their type"):
            view(numpy.ones(2, "float8_e4m3b11fnuz"), True)
        x.flags.writeable = False
        self.assertRaisesRegex(ValueError, "read-only", view, x, True)

    def test_results(self):
        with hoop.Comm() as comm:
            x = numpy.arange(6, dtype="e").reshape(2, 3)
            self.assertIs(x, comm.allreduce(x))
            out = numpy.full((2, 3), numpy.nan, "e")
            self.assertIs(out, comm.allreduce(x, out=out))
            self.assertTrue((x == out).all())


class Torch(unittest.TestCase):
    def test_tensors(self):
        for name in "float32", "bfloat16", "float16", "uint8", "int16", "bool":
            x = torch.zeros(3, 2, dtype=getattr(torch, name))
            found = view(x, True)
            self.assertEqual((x.data_ptr(), 6, name), (*found[:2], name_of(found[2])))
        for x in torch.zeros(3, 2).t(), torch.zeros(6)[::2]:
            self.assertRaisesRegex(ValueError, "a torch.Tensor with gaps", view, x, True)
        self.assertRaisesRegex(TypeError, "require.? grad", view, torch.zeros(2, requires_grad=True), True)
        complex_numbers = torch.zeros(2, dtype=torch.complex64)
        self.assertRaisesRegex(TypeError, "of the type torch.complex64 .* pass a view .* floats", view, complex_numbers, True)
        self.assertRaisesRegex(ValueError, "or expanded: pass a contiguous", view, torch.zeros(1).expand(3), True)
        self.assertRaisesRegex(TypeError, "meta", view, torch.zeros(3, device="meta"), True)

    def test_results(self):
        with hoop.Comm() as comm:
            x = torch.arange(5).bfloat16()
            self.assertIs(x, comm.allreduce(x))
            out = torch.full((5,), torch.nan).bfloat16()
            self.assertTrue(torch.equal(x, comm.allreduce(x, out=out)))


class Jax(unittest.TestCase):
    def test_arrays(self):
        for name in "float32", "bfloat16", "int8", "bool":
            x = jax.numpy.ones(5, name)
            found = view(x, False)
            self.assertEqual((x.unsafe_buffer_pointer(), 5, name), (*found[:2], name_of(found[2])))
            self.assertRaisesRegex(ValueError, "read-only .* pass out=", view, x, True)

    def test_results(self):
        with hoop.Comm() as comm:
            out = array.array("f", [9]) * 3
            self.assertIs(out, comm.allreduce(jax.numpy.arange(3.0), out=out))
            self.assertEqual([0, 1, 2], list(out))


if __name__ == "__main__":
    library = sys.argv.pop() if sys.argv[1:] else ""
    if library:
        globals()[library] = __import__(library)
    unittest.main(defaultTest=library.capitalize() or "Arrays")
