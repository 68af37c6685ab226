# SPDX-License-Identifier: MIT
"""Works: waits and their limits, tests, callbacks, asyncio, and arrays that the program lets go."""

import array
import asyncio
import contextlib
import gc
import os
import threading
import time
import unittest
import weakref

import hoop

comm = hoop.Comm()
RANK, SIZE = comm.rank, comm.size
ROUNDS = SIZE > 1 and os.environ.get("HOOP_SHM") == "0"  # in memory no element travels narrower
TOTAL = sum(range(SIZE))


class Held(array.array):
    """An array that can be watched: array.array cannot be referred to weakly."""


def mine(count=1):
    return array.array("i", [RANK]) * count


class Late:
    """`with Late():` rank 0 runs the block after the others have ended it, so what they start inside cannot complete."""

    def __enter__(self):
        for rank in range(1, SIZE) if RANK == 0 else []:
            comm.recv(bytearray(1), rank)

    def __exit__(self, *error):
        if RANK > 0:
            comm.isend(b"1", 0)  # a thread may be in a wait


class Works(unittest.TestCase):
    def test_wait(self):
        x = mine()
        work = comm.iallreduce(x)
        self.assertIs(x, work.wait())
        self.assertEqual(TOTAL, x[0])
        self.assertIs(x, work.wait())  # again
        self.assertIn("complete", repr(work))
        self.assertTrue(work.test())

    def test_order(self):
        for order in ("host", "rank", "auto", None):  # one host: its ranks in their order
            x = array.array("f", [RANK])
            self.assertEqual(TOTAL, comm.iallreduce(x, order=order).wait()[0])
            self.assertEqual(order in ("host", "rank") and SIZE > 1, comm.stats().in_rank_order)
        self.assertIn(comm.stats().algorithm, ("local", "doubling", "spread"))
        self.assertRaisesRegex(ValueError, "order='size': hoop has auto, rank", comm.iallreduce, x, order="size")

    def test_wire(self):
        """Each element is rounded to 8 bits before it travels, or to 4: 257 becomes 256. The setting does not do that here."""
        for wire, one in (("bfloat16", 256), ("float32", 257), (None, 257), ("e4m3", 256)):
            x, before = array.array("f", [257]) * 300000, comm.stats()
            comm.iallreduce(x, wire_dtype=wire).wait()
            self.assertEqual({(one if ROUNDS else 257) * SIZE}, set(x))
            after = comm.stats()
            self.assertEqual(wire in ("bfloat16", "e4m3") and ROUNDS, after.narrowed - before.narrowed)
            self.assertEqual(wire == "e4m3" and ROUNDS, after.narrowed_e4m3 - before.narrowed_e4m3)
        self.assertRaisesRegex(ValueError, "wire_dtype='half': hoop has float32, bf", comm.iallreduce, x, wire_dtype="half")
        whole = array.array("i", [1])
        self.assertRaisesRegex(hoop.HoopError, "means of float32", comm.iallreduce, whole, wire_dtype="bfloat16")

    def test_residual(self):
        """What rounding takes from 257 is added at the next call: 256 and 1 left, then 258. With 4 bits 17 becomes 16."""
        for wire, number in (("bfloat16", 257), ("e4m3", 17)):
            left = array.array("f", [0]) * 300000
            for want, rest in ((number - 1, 1), (number + 1, 0)) if ROUNDS else ((number, 0), (number, 0)):
                x = array.array("f", [number]) * 300000
                comm.iallreduce(x, wire_dtype=wire, residual=left).wait()
                self.assertEqual({want * SIZE}, set(x))
                self.assertEqual({rest}, set(left))
        self.assertRaisesRegex(ValueError, "give an array of float32", comm.iallreduce, x, residual=array.array("d", [1]))

    def test_limits(self):
        with Late():
            work = comm.iallreduce(mine())
            if RANK > 0:
                self.assertRaises(TimeoutError, work.wait, 0.05)
                self.assertIn("in progress", repr(work))
        self.assertEqual(TOTAL, work.wait(60)[0])
        self.assertEqual(TOTAL, comm.iallreduce(mine()).wait_or_fail(60)[0])

    def test_limits_at_length(self):
        """A limit below 0 is none to wait for; one that C's int cannot hold is the longest, or none."""
        endless = 2**32, 2.0**31 / 1000, 10**400, float("inf")
        works = [comm.iallreduce(mine()) for _ in range(2 + 3 * len(endless))]
        for seconds in endless:
            self.assertEqual(TOTAL, works.pop(0).wait(seconds)[0])
            self.assertEqual(TOTAL, works.pop(0).wait_or_fail(seconds)[0])
            self.assertEqual(0, hoop.wait_any(works[:1], seconds))
            works.pop(0)
        for wait in works[0].wait, works[0].wait_or_fail, lambda seconds: hoop.wait_any(works[1:], seconds):
            self.assertRaises(ValueError, wait, float("nan"))
        with Late():
            work = comm.iallreduce(mine())
            for wait in (work.wait, lambda seconds: hoop.wait_any([work], seconds)) if RANK > 0 else ():
                for seconds in -1, -1e300, -float("inf"):
                    self.assertRaises(TimeoutError, wait, seconds)
        hoop.wait_all([*works, work])

    def test_test(self):
        with Late():
            work = comm.iallreduce(mine())
            if RANK > 0:
                self.assertFalse(work.test())
        while not work.test():
            pass
        self.assertEqual(TOTAL, work.wait()[0])

    def test_all_and_any(self):
        works = [comm.iallreduce(mine()) for _ in range(5)]
        self.assertEqual([TOTAL] * 5, [x[0] for x in hoop.wait_all(works)])
        works = [comm.iallreduce(mine()) for _ in range(5)]
        while works:
            self.assertEqual(TOTAL, works.pop(hoop.wait_any(iter(works))).wait()[0])
        with Late():
            work = comm.iallreduce(mine())
            if RANK > 0:
                self.assertRaises(TimeoutError, hoop.wait_any, [work], 0.05)
        self.assertEqual(0, hoop.wait_any([work], 60))
        self.assertEqual(0, hoop.wait_any([work]))  # it has ended
        self.assertRaises(ValueError, hoop.wait_any, iter([]))

    def test_any_of_several_communicators(self):
        other = comm.split(0)
        works = [comm.iallreduce(mine()), other.iallreduce(mine())]
        first = hoop.wait_any(works)
        works.pop(first).wait()
        self.assertEqual(0, hoop.wait_any(works))
        works[0].wait()
        other.destroy()

    def test_callbacks(self):
        calls, all_called = [], threading.Event()

        def called(work):
            calls.append(work)
            if len(calls) == 6:
                all_called.set()

        with Late():
            works = [comm.iallreduce(mine()) for _ in range(3)]
            for work in works:
                work.add_done_callback(called)
                work.add_done_callback(called)
            self.assertEqual([], calls if RANK > 0 else [])
        self.assertTrue(all_called.wait(60))
        self.assertEqual([w for work in works for w in (work, work)], calls)
        self.assertEqual([TOTAL] * 3, [work.wait()[0] for work in works])
        works[0].add_done_callback(called)  # at once
        self.assertEqual(7, len(calls))

    def test_callbacks_beside_a_wait(self):
        """A callback that comes when the wait of another thread has freed the work: it is called once, by that thread."""
        calls, touched = [], []
        work = comm.iallreduce(mine())
        with Replaced("hoop_wait_any") as wait, Replaced("hoop_work_on_done") as watch:

            def waits(*arguments):
                code = wait.real(*arguments)
                if code != hoop.work.IN_PROGRESS:
                    in_a_thread(lambda: work.add_done_callback(lambda work: calls.append(work.wait()[0])))
                    calls.append("the wait returns")
                return code

            wait.function, watch.function = waits, lambda *arguments: touched.append(arguments) or 0
            self.assertEqual(TOTAL, work.wait()[0])
        self.assertEqual([], touched)
        self.assertEqual(["the wait returns", TOTAL], calls)

    def test_callbacks_beside_a_wait_that_goes_on(self):
        """Likewise, but the wait ends before the work does; or it is refused, as its thread is in a group."""
        for in_group in False, True:
            calls, called = [], threading.Event()
            with Late():
                work = comm.iallreduce(mine())
                if RANK > 0:
                    with comm.group() if in_group else contextlib.nullcontext(), Replaced("hoop_wait_any") as wait:

                        def waits(*arguments):
                            in_a_thread(lambda: work.add_done_callback(calls.append))
                            in_a_thread(lambda: work.add_done_callback(lambda work: called.set()))
                            return wait.real(*arguments)

                        wait.function = waits
                        with self.assertRaises(hoop.HoopError if in_group else TimeoutError):
                            work.wait(0.01)
                    self.assertEqual([], calls)
            if RANK > 0:
                self.assertTrue(called.wait(60))
                self.assertEqual([work], calls)
            self.assertEqual(TOTAL, work.wait()[0])
            self.assertEqual([work] if RANK > 0 else [], calls)

    def test_a_sweep_beside_a_wait(self):
        """The thread of callbacks finds the end of a receive that another thread's wait has freed already."""
        touched = []
        comm.isend(mine(), RANK, 1)
        work = comm.irecv(mine(), RANK, 1)
        with Replaced("hoop_wait_any") as wait, Replaced("hoop_work_received") as received:

            def waits(*arguments):
                code = wait.real(*arguments)
                if code != hoop.work.IN_PROGRESS:
                    in_a_thread(lambda: work._rung(code))
                return code

            wait.function, received.function = waits, lambda *arguments: touched.append(arguments) or 0
            work.wait()
        self.assertEqual([], touched)
        self.assertEqual((RANK, 1), work.received())

    def test_callbacks_while_destroying(self):
        part = comm.split(0)
        thread = threading.Thread(target=part.destroy)
        with Late():
            work = part.iallreduce(mine())
            if RANK > 0:
                thread.start()
                while part not in part._held:
                    time.sleep(0.001)
                for call in lambda: work.add_done_callback(print), lambda: asyncio.run(_awaited(work)):
                    with self.assertRaises(hoop.HoopError) as caught:
                        call()
                    self.assertEqual("HOOP_ERR_BUSY", caught.exception.name)
        part.destroy() if RANK == 0 else thread.join()
        calls = []
        work.add_done_callback(calls.append)
        self.assertEqual([work], calls)

    def test_a_callback_that_fails(self):
        seen, called = [], threading.Event()
        hook, hoop.work.sys.excepthook = hoop.work.sys.excepthook, lambda *error: seen.append(error[0])
        try:
            work = comm.iallreduce(mine())
            work.add_done_callback(lambda work: 1 / 0)
            work.add_done_callback(lambda work: called.set())
            self.assertTrue(called.wait(60))
            self.assertEqual([ZeroDivisionError], seen)
        finally:
            hoop.work.sys.excepthook = hook

    def test_a_busy_interpreter(self):
        """The library moves a large array while this thread never waits."""
        called = threading.Event()
        work = comm.iallreduce(array.array("i", [RANK]) * 300000)
        work.add_done_callback(lambda work: called.set())
        while not called.is_set():
            pass
        self.assertEqual(array.array("i", [TOTAL]) * 300000, work.wait())

    def test_asyncio(self):
        async def one(k):
            x = array.array("i", [RANK + k])
            self.assertIs(x, await comm.iallreduce(x))
            return x[0]

        async def many():
            results = await asyncio.gather(*[one(k) for k in range(50)])
            work = comm.iallreduce(mine())
            self.assertEqual([TOTAL, TOTAL], [(await work)[0], (await work)[0]])
            return results

        for _ in range(2):  # each has a loop of its own
            self.assertEqual([TOTAL + k * SIZE for k in range(50)], asyncio.run(many()))

    def test_asyncio_cancelled(self):
        async def cancelled():
            with Late():
                work = comm.iallreduce(mine())
                if RANK > 0:
                    with self.assertRaises(asyncio.TimeoutError):
                        await asyncio.wait_for(_awaited(work), 0.05)
            return (await work)[0]

        self.assertEqual(TOTAL, asyncio.run(cancelled()))

    def test_asyncio_after_a_callback(self):
        async def both():
            called = threading.Event()
            work = comm.iallreduce(mine())
            work.add_done_callback(lambda work: called.set())
            value = (await work)[0]
            self.assertTrue(called.wait(60))
            return value

        self.assertEqual(TOTAL, asyncio.run(both()))

    def test_asyncio_of_a_closed_loop(self):
        """A loop ends before the work that it awaits: others may await it, and its callbacks are called."""

        async def awaits():
            task = asyncio.create_task(_awaited(work))
            await asyncio.sleep(0)
            work.add_done_callback(lambda work: before.set())
            task.cancel()

        before, after = threading.Event(), threading.Event()
        with Late():
            work = comm.iallreduce(mine())
            if RANK > 0:
                asyncio.run(awaits())
        work.add_done_callback(lambda work: after.set())
        self.assertEqual(TOTAL, asyncio.run(asyncio.wait_for(_awaited(work), 20))[0])
        self.assertTrue(after.wait(20))
        self.assertEqual(RANK > 0, before.wait(20 if RANK > 0 else 0))
        with Late():
            work = comm.iallreduce(mine())
            if RANK > 0:
                with self.assertRaises(asyncio.TimeoutError):
                    asyncio.run(asyncio.wait_for(_awaited(work), 0.05))
        self.assertEqual(TOTAL, asyncio.run(asyncio.wait_for(_awaited(work), 20))[0])

    def dies(self, alive):
        """The array does, as operations go on."""
        for _ in range(50):
            comm.allreduce(mine())
            comm.iallreduce(mine())
        gc.collect()
        self.assertIsNone(alive())
        comm.barrier()

    def test_dropped(self):
        """The array of a dropped work lives until the operation has ended, and no longer."""
        with Late():
            x = Held("i", [RANK])
            alive = weakref.ref(x)
            comm.iallreduce(x)
            del x
            gc.collect()
            if RANK > 0:
                self.assertIsNotNone(alive())
        self.dies(alive)

    def test_dropped_in_a_group(self):
        """libhoop is told of the work when the group ends, and the array does not live until the ring does."""
        x = Held("i", [RANK])
        alive, work = weakref.ref(x), comm.iallreduce(x)
        with comm.group():
            del x, work
            gc.collect()
            self.assertIsNotNone(alive())
        self.dies(alive)

    def test_dropped_while_destroying(self):
        """A work that is dropped while another thread destroys its communicator: the array lives until that has ended."""
        part, x = comm.split(0), Held("i", [RANK])
        alive, thread = weakref.ref(x), threading.Thread(target=part.destroy)
        with Late():
            work = part.iallreduce(x)
            if RANK > 0:
                thread.start()
                while part not in part._held:
                    time.sleep(0.001)
            del work, x
            gc.collect()
            if RANK > 0:
                self.assertIsNotNone(alive())
        part.destroy() if RANK == 0 else thread.join()
        gc.collect()
        self.assertIsNone(alive())

    def test_dropped_before_destroying(self):
        """A thread that destroys the communicator waits until another one has let go of a work."""
        part, seen, real = comm.split(0), [], hoop.comm.lib.hoop_work_free
        thread = threading.Thread(target=part.destroy)

        def free(handle):
            thread.start()
            thread.join(0.1)
            seen.append(part._handle)
            return real(handle) if part._handle else 0

        work = part.iallreduce(mine())
        hoop.comm.lib.hoop_work_free = free
        try:
            del work
        finally:
            hoop.comm.lib.hoop_work_free = real
        thread.join()
        self.assertNotIn(0, seen)
        self.assertEqual(1, len(seen))

    def test_waiting_twice(self):
        """Two threads that wait for one work: the second gets an error. For two works each may wait."""
        thread = threading.Thread(target=lambda: work.wait())
        with Late():
            work, other = comm.iallreduce(mine()), comm.iallreduce(mine())
            if RANK > 0:
                thread.start()
                while not comm._held:  # until the thread waits
                    time.sleep(0.001)
                with self.assertRaises(TimeoutError):
                    other.wait(0.01)
                with self.assertRaises(hoop.HoopError) as caught:
                    work.wait()
                self.assertEqual("HOOP_ERR_BUSY", caught.exception.name)
        if RANK > 0:
            thread.join()
        self.assertEqual(TOTAL, work.wait()[0])
        self.assertEqual(TOTAL, other.wait()[0])

    def test_refused_in_a_group(self):
        """A wait or test inside a group says so, and leaves the work alone."""
        x = Held("i", [RANK]) * 1000
        with Late():
            work, alive = comm.iallreduce(x), weakref.ref(x)
            waits = [work.wait, lambda: work.wait(0.01), lambda: hoop.wait_any([work]), lambda: work.wait_or_fail(0.01)]
            with comm.group():
                for wait in *waits, work.test:
                    with self.assertRaisesRegex(hoop.HoopError, "inside a group") as caught:
                        wait()
                    self.assertEqual("HOOP_ERR_INVALID_USAGE", caught.exception.name)
            del x
            gc.collect()
            self.assertIn("in progress", repr(work))
            self.assertIsNotNone(alive())
        self.assertEqual(TOTAL, work.wait(60)[999])

    def test_exception_after_the_end(self):
        """A signal's exception that strikes when libhoop has freed the work: the handle is gone, the result is not."""
        works = [comm.iallreduce(mine()) for _ in range(3)]
        with Struck("hoop_wait_any"):
            self.assertRaises(KeyboardInterrupt, works[0].wait)
            self.assertRaises(KeyboardInterrupt, hoop.wait_any, [works[1]] * 2)
        with Struck("hoop_work_wait_or_fail"):
            self.assertRaises(KeyboardInterrupt, works[2].wait_or_fail, 60)
        self.assertEqual([0, 0, 0], [work._handle for work in works])
        self.assertEqual([TOTAL] * 3, [work.wait()[0] for work in works])


class Replaced:
    """`with Replaced(name) as it:` it.function takes the place of this function of libhoop; it.real is that one."""

    def __init__(self, name):
        self.name, self.real = name, getattr(hoop.work.lib, name)
        self.function = self.real

    def __enter__(self):
        setattr(hoop.work.lib, self.name, lambda *arguments: self.function(*arguments))
        return self

    def __exit__(self, *error):
        setattr(hoop.work.lib, self.name, self.real)


def in_a_thread(function):
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


class Struck:
    """`with Struck(name):` Ctrl-C's exception comes when this function of libhoop has ended a work."""

    def __init__(self, name):
        self.name, self.real = name, getattr(hoop.work.lib, name)

    def __enter__(self):
        setattr(hoop.work.lib, self.name, self.struck)

    def __exit__(self, *error):
        setattr(hoop.work.lib, self.name, self.real)

    def struck(self, *arguments):
        code = self.real(*arguments)
        if code != hoop.work.IN_PROGRESS:
            raise KeyboardInterrupt
        return code


async def _awaited(work):
    return await work


if __name__ == "__main__":
    unittest.main(failfast=True)
