# SPDX-License-Identifier: MIT
"""Wrong calls on 2 ranks: each raises an exception that says what is wrong, and the communicator goes on or names the cause."""

import array
import copy
import os
import pickle
import threading
import time
import unittest

import hoop

comm = hoop.Comm()
RANK, SIZE = comm.rank, comm.size


def ints(count):
    return array.array("i", [1] * count)


class Misuse(unittest.TestCase):
    def refuses(self, text, call, *arguments, error=ValueError, **keywords):
        with self.assertRaisesRegex(error, text):
            call(*arguments, **keywords)

    def test_lengths(self):
        self.refuses("out has 2 elements, and this call needs 3: as many as x", comm.allreduce, ints(3), out=ints(2))
        self.refuses(
            "x has 3 elements, and this call needs 4: those of out for each of the 2",
            comm.reduce_scatter,
            ints(3),
            ints(2),
        )
        self.refuses("out has 5 elements, and this call needs 6", comm.allgather, ints(3), ints(5))
        self.refuses("out has 2 elements, and this call needs 3", comm.broadcast, ints(3), 0, ints(2))
        self.refuses("no multiple of the 2 ranks", comm.alltoall, ints(3))
        self.refuses(r"counts=\[1\]: give 2 numbers", comm.allgatherv, ints(1), ints(2), [1])
        self.refuses(r"counts=\[-1, 1\]: give 2 numbers", comm.allgatherv, ints(1), ints(2), [-1, 1])
        self.refuses(r"x has 2 elements, and this call needs 1: counts\[", comm.allgatherv, ints(2), ints(2), [1, 1])
        self.refuses(r"give 2 numbers, one for each rank, from 0 to 2\*\*64", comm.allgatherv, ints(1), ints(2), [2**64 + 1, 1])
        self.refuses("a block ends at 9", comm.allgatherv, ints(1), ints(8), [1, 1], [0, 8])
        self.refuses(
            "out has 3 elements, and this call needs 2: the sum", comm.alltoallv, ints(2), ints(3), [1, 1], [1, 1]
        )
        if RANK == 0:
            self.refuses("out is None on a rank that needs it", comm.gather, ints(1))
            self.refuses("x is None on a rank that needs it", comm.scatter, None, ints(1))
            self.refuses("out has 1 elements, and this call needs 2", comm.gather, ints(1), ints(1))
            self.refuses("out has 1 elements, and this call needs 3", comm.reduce, ints(3), out=ints(1))

    def test_types_and_names(self):
        self.refuses(
            "x has elements of the type int32 and out of float32", comm.allreduce, ints(1), out=array.array("f", [1])
        )
        self.refuses("op='mean': hoop has sum, prod", comm.allreduce, ints(1), "mean")
        self.refuses("a read-only builtins.bytes", comm.allreduce, b"1234")
        self.refuses("is no array", comm.allreduce, [1, 2], error=TypeError)
        with self.assertRaises(hoop.HoopError) as caught:
            hoop.Comm(no_such_setting=1)
        self.assertIn("no_such_setting: no such setting", str(caught.exception))
        self.assertEqual("HOOP_ERR_INVALID_ARGUMENT", caught.exception.name)

    def test_numbers_that_are_none(self):
        """A rank, tag or count of a wrong type or size, also one that C's int would cut to another."""
        for root in "0", 0.0, None:
            for call in (comm.broadcast, comm.reduce, comm.gather, comm.scatter):
                self.refuses(f"root={root!r} is a", call, ints(1), out=ints(1), root=root, error=TypeError)
        for call in comm.send, comm.recv:
            self.refuses("peer='1' is a str: give a whole", call, ints(1), "1", error=TypeError)
            self.refuses("tag=0.5 is a float", call, ints(1), 1, 0.5, error=TypeError)
            self.refuses(f"peer={2**32}: give a number", call, ints(1), 2**32)
            self.refuses(f"tag={2**40}: give a number", call, ints(1), 1, 2**40)
        self.refuses("color='a' is a str", comm.split, "a", error=TypeError)
        self.refuses(f"key={2**31}: give", comm.split, 0, 2**31)
        for counts in [1.5, 1], "11", 2, None:
            self.refuses("give 2 whole numbers", comm.allgatherv, ints(1), ints(2), counts, error=TypeError)
        for seconds in -1, 1e9, float("nan"):
            self.refuses("give 0 to 86400 seconds", comm.set_timeout, seconds)
        self.refuses("size=0: a ring has at least one rank", hoop.Comm, size=0)

    def test_types_that_are_none(self):
        self.refuses(r"dtype=<class 'float'> is not a name", comm.allreduce, ints(1), dtype=float, error=TypeError)
        self.refuses("dtype='f4': hoop has int8", comm.allreduce, ints(1), dtype="f4")
        self.refuses("op='SUM': hoop has sum", comm.allreduce, ints(1), "SUM")
        for op in 0, [], max:
            self.refuses("is not a name: give one of sum, prod", comm.allreduce, ints(1), op, error=TypeError)

    def test_copies(self):
        """Two owners of one handle would free it twice, and another process has none."""
        work = comm.iallreduce(ints(1))
        with hoop.Server(rendezvous="127.0.0.1:0", secret=hoop.new_secret()) as server:
            for thing in comm, work, server, [comm]:
                for duplicate in copy.copy, copy.deepcopy, pickle.dumps:
                    if (thing, duplicate) != ([comm], copy.copy):
                        self.refuses("cannot be copied or pickled", duplicate, thing, error=TypeError)
        work.wait()

    def test_null_characters(self):
        self.refuses(r"a setting is 'night\\x00a'", hoop.Comm, job="night\0a", rank=0, size=1)
        part = comm.split(0)
        part.abort("bad\0file")
        with self.assertRaisesRegex(hoop.HoopError, r"bad\?file"):
            part.barrier()
        self.assertRaises(hoop.HoopError, part.destroy)

    def test_ranks(self):
        for call in comm.send, comm.recv:
            with self.assertRaises(hoop.HoopError) as caught:
                call(ints(1), 77)
            self.assertIn("peer 77 is not a rank", str(caught.exception))
            self.assertEqual((4, "HOOP_ERR_INVALID_ARGUMENT"), (caught.exception.code, caught.exception.name))
        self.refuses("more than 65536 bytes", comm.send, ints(100000), RANK, error=hoop.HoopError)

    def test_wrong_moments(self):
        with self.assertRaises(hoop.HoopError) as caught, comm.group():
            comm.iallreduce(ints(1))
        self.assertEqual("HOOP_ERR_INVALID_USAGE", caught.exception.name)
        with self.assertRaises(hoop.HoopError) as caught, comm.group():
            comm.group().__enter__()
        self.assertEqual("HOOP_ERR_INVALID_USAGE", caught.exception.name)
        comm.barrier()

    def test_a_dropped_group(self):
        """Other ranks hear nothing of a group that an exception has dropped; what comes in its place may match theirs."""
        part = comm.split(0)
        if RANK == 0:
            with self.assertRaises(KeyError), part.group():
                part.allreduce(ints(1))
                raise KeyError
            comm.barrier()
            part.allreduce(ints(1))
        else:
            with part.igroup() as group:
                part.allreduce(ints(1))
            self.assertRaises(TimeoutError, group.work.wait, 2)
            comm.barrier()
            group.work.wait()

    def test_a_wrong_call_in_a_group(self):
        """The end of the group raises what libhoop refuses, and the other rank is told the reason."""
        part = comm.split(0)
        with self.assertRaisesRegex(hoop.HoopError, "band combines the bits of integers"), part.group():
            part.barrier()
            part.allreduce(array.array("f", [1]), "band" if RANK == 0 else "sum")
        comm.barrier()

    def test_names_in_a_group(self):
        part = comm.split(0)
        with self.assertRaisesRegex(hoop.HoopError, r"\(two\)"), part.group():
            part.call_name = "two"
            part.allreduce(ints(3 + RANK))
            part.call_name = "three"
        self.assertEqual("three", part.call_name)
        comm.barrier()

    def test_an_interrupted_group(self):
        """Ctrl-C while the end of a group starts it: the ring is over, and the other rank is told."""
        part, real = comm.split(0), hoop.comm.lib.hoop_igroup_end

        def struck(*arguments):
            hoop.comm.lib.hoop_igroup_end = real
            raise KeyboardInterrupt

        if RANK == 0:
            hoop.comm.lib.hoop_igroup_end = struck
        with self.assertRaises(KeyboardInterrupt if RANK == 0 else hoop.HoopError) as caught, part.group():
            part.allreduce(ints(1))
        self.assertTrue(RANK == 0 or "rank 0 was interrupted" in str(caught.exception), caught.exception)
        self.assertRaises(hoop.HoopError, part.barrier)
        comm.barrier()

    def test_two_threads(self):
        if RANK == 0:
            comm.recv(bytearray(1), 1)
            comm.barrier()
            return
        thread = threading.Thread(target=comm.barrier)
        thread.start()
        time.sleep(0.5)  # until the thread is in the barrier
        with self.assertRaises(hoop.HoopError) as caught:
            comm.destroy()
        self.assertEqual("HOOP_ERR_BUSY", caught.exception.name)
        comm.send(b"1", 0)
        thread.join()

    def test_a_mismatch(self):
        """Ranks that call different things: an error on both, with both calls."""
        part = comm.split(0)
        with self.assertRaises(hoop.HoopError) as caught:
            part.allreduce(ints(3 + RANK))
        error = caught.exception
        self.assertEqual("HOOP_ERR_MISMATCH", error.name)
        self.assertRegex(str(error), r"count.3.*count.4|3.*4|4.*3")
        self.assertIn(error.rank, (0, 1))
        twin = pickle.loads(pickle.dumps(error))
        self.assertEqual(
            (str(error), error.code, error.rank, error.phase), (str(twin), twin.code, twin.rank, twin.phase)
        )
        with self.assertRaises(hoop.HoopError) as again:
            part.barrier()
        self.assertEqual(str(error), str(again.exception))
        self.assertRaises(hoop.HoopError, part.destroy)
        part.destroy()  # twice is fine

    def test_an_abort(self):
        part = comm.split(0)
        if RANK == 0:
            part.abort("the test wants it")
        with self.assertRaises(hoop.HoopError) as caught:
            part.barrier()
        self.assertEqual("HOOP_ERR_ABORTED", caught.exception.name)
        self.assertEqual(0, caught.exception.rank)
        self.assertIn("the test wants it", str(caught.exception))

    def test_a_reason_that_is_no_utf_8(self):
        """A file's name in an exception may be any bytes: the ring is aborted, or left, all the same."""
        name = os.fsdecode(b"caf\xe9")
        for ends in True, False:
            part = comm.split(0)
            if RANK == 0 and ends:
                with self.assertRaises(OSError), part:
                    raise OSError(name)
                self.assertIn("destroyed", repr(part))
            elif RANK == 0:
                part.abort(name)
            else:
                self.refuses(r"OSError: caf\?" if ends else r"caf\?", part.barrier, error=hoop.HoopError)
            comm.barrier()

    def test_a_limit(self):
        for seconds in 0.3, 0, -1, -float("inf"):
            part = comm.split(0)
            if RANK == 1:
                with self.assertRaises(hoop.HoopError) as caught:
                    part.iallreduce(ints(1)).wait_or_fail(seconds)
                self.assertEqual("HOOP_ERR_TIMEOUT", caught.exception.name)
                self.assertEqual(0, caught.exception.rank)
            comm.barrier()

    def test_a_failed_work(self):
        part = comm.split(0)
        failed = threading.Event()
        if RANK == 1:
            works = [part.iallreduce(ints(1)) for _ in range(3)]
            works[0].add_done_callback(lambda work: failed.set())
            comm.barrier()
            self.assertTrue(failed.wait(60))
            for work in works:
                with self.assertRaises(hoop.HoopError) as caught:
                    work.wait()
                self.assertEqual("HOOP_ERR_ABORTED", caught.exception.name)
            self.assertIn("failed", repr(works[0]))
            self.assertRaises(hoop.HoopError, works[0].test)
            self.assertRaises(hoop.HoopError, hoop.wait_all, works)
        else:
            comm.barrier()
            part.abort()

    def test_after_destroying(self):
        part = comm.split(0)
        work = part.iallreduce(ints(1))
        part.destroy()
        self.assertEqual(2, work.wait()[0])
        for call in part.barrier, part.ibarrier, part.abort, lambda: part.local_rank, lambda: part.split(0):
            with self.assertRaisesRegex(hoop.HoopError, f"rank {RANK} has destroyed this communicator already"):
                call()
        self.assertIn("destroyed", repr(part))


if __name__ == "__main__":
    unittest.main(failfast=True)
