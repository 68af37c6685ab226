# SPDX-License-Identifier: MIT
"""Every operation of hoop.Comm, to the bit, on as many ranks as hooprun has started."""

import array
import unittest

import hoop
from reference import TYPES, array_of, bits, ops_of, poisoned, reduced, value_at

COUNT = 37
comm = hoop.Comm()
RANK, SIZE = comm.rank, comm.size


def values(rank, count=COUNT, op="max", name="int32"):
    return [value_at(rank, i, op, name, SIZE) for i in range(count)]


def reduction(count, op, name):
    columns = zip(*[values(rank, count, op, name) for rank in range(SIZE)])
    return [reduced(column, op, name) for column in columns]


class Collectives(unittest.TestCase):
    def same(self, wanted, x, name="int32"):
        self.assertEqual(bits(array_of(wanted, name)[0]), bits(x))

    def test_reductions(self):
        for name in TYPES:
            for op in ops_of(name):
                with self.subTest(name=name, op=op):
                    wanted = reduction(COUNT, op, name)
                    x, keyword = array_of(values(RANK, COUNT, op, name), name)
                    out, _ = poisoned(COUNT, name)
                    before = bits(x)
                    self.assertIs(out, comm.allreduce(x, op, out, **keyword))
                    self.same(wanted, out, name)
                    self.assertEqual(before, bits(x))
                    self.assertIs(x, comm.allreduce(x, op=op, **keyword))
                    self.same(wanted, x, name)

    def test_reduce(self):
        for root in range(SIZE):
            x, out = array.array("i", values(RANK)), poisoned(COUNT, "int32")[0]
            result = comm.reduce(x, "max", root=root, out=out)
            self.assertIs(out if RANK == root else None, result)
            if RANK == root:
                self.same(reduction(COUNT, "max", "int32"), out)
            result = comm.reduce(x, "max", root)
            self.assertIs(x if RANK == root else None, result)
            self.same(reduction(COUNT, "max", "int32") if RANK == root else values(RANK), x)

    def test_reduce_scatter(self):
        x, out = array.array("i", values(RANK, COUNT * SIZE)), poisoned(COUNT, "int32")[0]
        self.assertIs(out, comm.reduce_scatter(x, out))
        wanted = [sum(c) for c in zip(*[values(r, COUNT * SIZE) for r in range(SIZE)])]
        self.same(wanted[RANK * COUNT : (RANK + 1) * COUNT], out)

    def test_allgather_and_gather(self):
        wanted = [value for rank in range(SIZE) for value in values(rank)]
        x, out = array.array("i", values(RANK)), poisoned(COUNT * SIZE, "int32")[0]
        self.assertIs(out, comm.allgather(x, out))
        self.same(wanted, out)
        whole = memoryview(array.array("i", [-1]) * (COUNT * SIZE))
        mine = whole[RANK * COUNT : (RANK + 1) * COUNT]
        mine[:] = x
        comm.allgather(mine, whole)  # in place
        self.same(wanted, whole)
        out, _ = poisoned(COUNT * SIZE, "int32")
        root = SIZE - 1
        self.assertIs(out if RANK == root else None, comm.gather(x, out if RANK == root else None, root))
        if RANK == root:
            self.same(wanted, out)

    def test_broadcast_and_scatter(self):
        for root in range(SIZE):
            x, out = array.array("i", values(RANK)), poisoned(COUNT, "int32")[0]
            comm.broadcast(x, root, out)
            self.same(values(root), out)
            self.assertIs(x, comm.broadcast(x, root))
            self.same(values(root), x)
            out, _ = poisoned(COUNT, "int32")
            whole = array.array("i", range(COUNT * SIZE)) if RANK == root else None
            self.assertIs(out, comm.scatter(whole, out, root))
            self.same(list(range(RANK * COUNT, (RANK + 1) * COUNT)), out)
        read_only = memoryview(bytes(range(9)))
        x = read_only if RANK == 0 else bytearray(b"\xa5" * 9)
        self.assertEqual(bytes(range(9)), bytes(comm.broadcast(x)))

    def test_alltoall(self):
        x = array.array("i", [100 * RANK + to for to in range(SIZE) for _ in range(COUNT)])
        wanted = [100 * sender + RANK for sender in range(SIZE) for _ in range(COUNT)]
        out, _ = poisoned(COUNT * SIZE, "int32")
        self.assertIs(out, comm.alltoall(x, out))
        self.same(wanted, out)
        self.assertIs(x, comm.alltoall(x))
        self.same(wanted, x)

    def test_uneven_blocks(self):
        counts = [3 * r for r in range(SIZE)]
        displs = [10 * r + 1 for r in range(SIZE)]
        x = array.array("i", [RANK + 1] * counts[RANK])
        out, _ = poisoned(sum(counts), "int32")
        comm.allgatherv(x, out, counts)
        self.same([r + 1 for r in range(SIZE) for _ in range(counts[r])], out)
        spread = array.array("i", [-1]) * (10 * SIZE + 2)
        self.assertIs(spread, comm.allgatherv(x, spread, counts, displs))
        wanted = [-1] * len(spread)
        for r in range(SIZE):
            wanted[displs[r] : displs[r] + counts[r]] = [r + 1] * counts[r]
        self.same(wanted, spread)
        x, out = array.array("i", values(RANK, 10 * SIZE + 2)), poisoned(counts[RANK], "int32")[0]
        self.assertIs(out, comm.reduce_scatterv(x, out, counts, displs, "max"))
        start = displs[RANK]
        self.same(reduction(10 * SIZE + 2, "max", "int32")[start : start + counts[RANK]], out)

    def test_alltoallv(self):
        sends = [RANK + to for to in range(SIZE)]
        receives = [sender + RANK for sender in range(SIZE)]
        x = array.array("h", [10 * RANK + to for to in range(SIZE) for _ in range(sends[to])])
        out, _ = poisoned(sum(receives), "int16")
        self.assertIs(out, comm.alltoallv(x, out, sends, receives))
        self.same([10 * s + RANK for s in range(SIZE) for _ in range(receives[s])], out, "int16")
        displs = [5 * SIZE * r for r in range(SIZE)]
        out = array.array("h", [-1]) * (5 * SIZE * SIZE)
        comm.alltoallv(x, out, sends, receives, recvdispls=displs)
        wanted = [-1] * len(out)
        for s in range(SIZE):
            wanted[displs[s] : displs[s] + receives[s]] = [10 * s + RANK] * receives[s]
        self.same(wanted, out, "int16")

    def test_messages(self):
        after, before = (RANK + 1) % SIZE, (RANK - 1) % SIZE
        for count in 0, 1, 100000:
            x, out = array.array("i", [RANK]) * count, poisoned(count, "int32")[0]
            with comm.group():
                self.assertIs(x, comm.send(x, after, 3))
                self.assertIs(out, comm.recv(out, before, tag=3))
            self.same([before] * count, out)
        if SIZE > 1:
            self.pass_on(after, before)

    def test_shorter_messages(self):
        """They fill the start of a larger array, and the receive tells how many came."""
        after, before = (RANK + 1) % SIZE, (RANK - 1) % SIZE
        for count in 0, 1, 100000:
            out = array.array("i", [-7]) * 100003
            send, receive = comm.isend(array.array("i", [RANK]) * count, after, 5), comm.irecv(out, before, 5)
            self.assertRaises(ValueError, send.received)
            receive.wait()
            self.assertEqual((before, count), receive.received())
            self.same([before] * count + [-7] * (100003 - count), out)
            send.wait()
            send = comm.isend(bytes(count), after, 6)
            comm.recv(bytearray(100001), before, 6)
            self.assertEqual((before, count), comm.received())
            send.wait()
        if RANK > 0:
            comm.send(bytes([RANK] * RANK), 0, 7)
        for _ in range(1, SIZE if RANK == 0 else 1):
            out = bytearray(SIZE)
            self.assertIs(out, comm.recv(out, None, 7))
            rank, count = comm.received()
            self.assertEqual((rank, bytes([rank] * rank + [0] * (SIZE - rank))), (count, bytes(out)))

    def pass_on(self, after, before):
        """A token makes a round with the blocking calls."""
        token = array.array("q", [0])
        if RANK > 0:
            comm.recv(token, before)
        token[0] += RANK
        comm.send(token, after)
        if RANK == 0:
            comm.recv(token, before)
            self.assertEqual(sum(range(SIZE)), token[0])

    def test_groups(self):
        arrays = [array.array("f", [RANK + k]) for k in range(20)]
        with comm.group():
            for x in arrays:
                comm.allreduce(x)
        self.assertEqual([sum(r + k for r in range(SIZE)) for k in range(20)], [x[0] for x in arrays])
        with self.assertRaises(KeyError), comm.group():
            comm.allreduce(arrays[0])
            raise KeyError("the program's own error")
        self.assertEqual(sum(range(SIZE)), arrays[0][0])  # the group was dropped
        with comm.igroup() as group:
            for x in arrays:
                comm.allreduce(x, "max")
        self.assertIsNone(group.work.wait())
        self.assertEqual(sum(range(SIZE)), arrays[0][0])

    def test_split(self):
        part = comm.split(RANK % 2, -RANK)
        same = [r for r in range(SIZE) if r % 2 == RANK % 2][::-1]
        self.assertEqual((len(same), same.index(RANK)), (part.size, part.rank))
        self.assertEqual(sum(same), part.allreduce(array.array("i", [RANK]))[0])
        part.destroy()
        alone = comm.split(0 if RANK == 0 else -1)
        self.assertEqual(RANK == 0, alone is not None)
        if alone:
            alone.destroy()

    def test_getters(self):
        self.assertEqual((RANK, SIZE), (comm.local_rank, comm.local_size))
        self.assertEqual("", comm.name)
        comm.name = "caf\u00e9"
        self.assertEqual("caf\u00e9", comm.name)
        for wrong in ("two\nlines", "n" * 64):
            with self.assertRaises(hoop.HoopError):
                comm.name = wrong
        self.assertEqual("caf\u00e9", comm.name)
        comm.name = ""
        self.assertEqual("", comm.call_name)
        comm.call_name = "gradi\u00ebnts"
        self.assertEqual("gradi\u00ebnts", comm.call_name)
        with self.assertRaises(ValueError):
            comm.call_name = "a\0b"
        self.assertEqual("gradi\u00ebnts", comm.call_name)
        for wrong in ("two\nlines", "n" * 32):
            comm.call_name = "loss"
            with self.assertRaises(hoop.HoopError):
                comm.call_name = wrong
            self.assertEqual("", comm.call_name)
        comm.call_name = "a barrier"
        before = comm.completed
        comm.barrier()
        self.assertEqual(before + 1, comm.completed)
        comm.call_name = ""
        stats = comm.stats()
        self.assertEqual((comm.completed, True), (stats.operations, stats.inside_ns > 0))
        self.assertIsNone(stats.clock_error_ns if SIZE == 1 else None)
        self.assertIn(comm.local_address, ("127.0.0.1",) if SIZE > 1 else ("127.0.0.1", ""))
        self.assertIn(f"rank {RANK} of {SIZE}", repr(comm))


if __name__ == "__main__":
    unittest.main(failfast=True)
