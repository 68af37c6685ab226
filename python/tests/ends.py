# SPDX-License-Identifier: MIT
"""Programs that end in all ways; the first argument says how. Each prints one line a rank about what it saw."""

import array
import atexit
import multiprocessing
import os
import signal
import sys
import threading
import time

import hoop

comm = hoop.Comm()
RANK, SIZE = comm.rank, comm.size


def mine(count=1):
    return array.array("i", [RANK]) * count


def say(*words):
    print(f"rank {RANK}:", *words, flush=True)


def error_of(call):
    try:
        call()
    except hoop.HoopError as error:
        return f"{error.name} of rank {error.rank}: {error}"
    return "no error"


def in_flight():
    """Works that nobody waits for, with and without a name, a bell and a loop."""
    global kept
    kept = [comm.iallreduce(mine(100000)) for _ in range(3)]
    kept[0].add_done_callback(lambda work: None)
    comm.iallreduce(mine(100000))
    comm.ibarrier()
    say("ends")


def status():
    comm.iallreduce(mine())
    sys.exit(3)


def missing():
    """Rank 1 never enters what rank 0 has started."""
    if RANK == 0:
        comm.iallreduce(mine())
    else:
        say("ends")


def unmatched():
    """Rank 1 ends with a receive that no rank matches."""
    if RANK == 1:
        comm.irecv(mine(), 0, 7)
    else:
        say(error_of(comm.barrier))


def uncaught():
    """Rank 1 ends by an exception, and the others wait for it."""
    if RANK == 1:
        {}["a key of the program"]
    say(error_of(comm.barrier))


def uncaught_in_with():
    with comm:
        if RANK == 1:
            {}["a key of the program"]
        say(error_of(comm.barrier))


def uncaught_in_finally():
    """Rank 1 destroys the communicator on its way out, with a receive that nobody matches."""
    if RANK == 1:
        try:
            comm.irecv(mine(), 0, 7)
            {}["a key of the program"]
        finally:
            comm.destroy()
    say(error_of(comm.barrier))


def uncaught_in_atexit():
    """Likewise, by a function that it has registered for its end."""
    if RANK == 1:
        atexit.register(comm.destroy)
        comm.irecv(mine(), 0, 7)
        {}["a key of the program"]
    say(error_of(comm.barrier))


def handled():
    """An exception that the program was handling at its last call does not end the ring."""
    try:
        {}["a key of the program"]
    except KeyError:
        comm.barrier()
        if RANK == 0:
            comm.destroy()
        else:
            time.sleep(0.5)  # an end of the ring would be printed when this rank leaves
    say("ends")


def caught():
    """An error that the program has caught is not printed at the end."""
    error_of(lambda: comm.allreduce(mine(1 + RANK)))
    say("ends")


def early():
    """Rank 1 ends well, and the others wait for it."""
    if RANK == 1:
        return
    say(error_of(comm.barrier).split(":")[0])


def daemon():
    """Rank 0 ends while a thread of it waits for rank 1, which comes late."""
    if RANK == 0:
        thread = threading.Thread(target=comm.barrier, daemon=True)
        thread.start()
        time.sleep(0.1)
        say("ends")
    else:
        time.sleep(0.5)
        say(error_of(comm.barrier).split(":")[0])


def child_of(work):
    """In the child of a fork. Its bells and communicators are the parent's."""
    waits = [work.wait, lambda: work.wait_or_fail(1), lambda: hoop.wait_any([work]), work.test]
    waits += [lambda: work.add_done_callback(print)]
    calls = [comm.barrier, comm.destroy, *waits, lambda: comm.send(mine(), 0)]
    errors = {error_of(call).split(" ")[0] for call in calls}
    assert errors == {"HOOP_ERR_FORKED"}, errors
    assert "in progress" in repr(work), work
    secret = hoop.new_secret()
    job = {"secret": secret, "job": "child"}  # a server and a communicator of its own are fine
    with hoop.Server(rendezvous="127.0.0.1:0", **job) as server, hoop.Comm(
        rank=0, size=1, rendezvous=server.address, **job
    ) as own:
        called = threading.Event()
        own.iallreduce(mine()).add_done_callback(lambda work: called.set())
        assert called.wait(60)
        assert own.allreduce(array.array("i", [5]))[0] == 5


def child(run, status):
    pid = os.fork()
    if pid == 0:
        run()
        sys.exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == status


def fork():
    """Children while works are in flight: two end like programs, others are workers of multiprocessing."""
    comm.ibarrier().add_done_callback(lambda work: None)  # the bell's thread runs
    called = threading.Event()
    if RANK == 0:
        comm.recv(bytearray(1), 1)  # after the children of rank 1
    work = comm.iallreduce(mine(100000))
    work.add_done_callback(lambda work: called.set())
    if RANK == 1:
        child(lambda: None, 0)
        child(lambda: child_of(work), 7)
        comm.isend(b"1", 0)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(abs, [-1, -2]) == [1, 2]
    assert called.wait(60) and work.wait()[0] == sum(range(SIZE))
    comm.barrier()
    say("ends")


def forked_rank(rank, place, raises):
    """A process of multiprocessing, which ends without the interpreter's end."""
    own = hoop.Comm(rank=rank, size=2, **place.recv())
    if rank == 1:
        own.isend(bytearray(4000000), 0)
        if raises:
            {}["a key of the program"]
    else:
        place.send(error_of(lambda: (own.recv(bytearray(4000000), 1), raises and own.barrier())))


def forked():
    """Ranks that multiprocessing has forked leave as others do: what they have sent arrives, and an exception is told."""
    if RANK == 1:
        say("ends")
        return
    for raises in False, True:
        places = [multiprocessing.Pipe() for _ in range(2)]
        make = multiprocessing.get_context("fork").Process
        ranks = [make(target=forked_rank, args=(r, places[r][1], raises)) for r in range(2)]
        for rank in ranks:
            rank.start()
        job = {"secret": hoop.new_secret(), "job": f"forked {raises}"}
        with hoop.Server(rendezvous="127.0.0.1:0", **job) as server:
            for ours, _ in places:
                ours.send({"rendezvous": server.address, **job})
            for rank in ranks:
                rank.join(60)
            say(places[0][0].recv() if places[0][0].poll(0) else "nothing came")
        assert [rank.exitcode for rank in ranks] == [0, int(raises)]


def interrupt():
    """Ctrl-C in the wait for a rank that comes when it has seen the interrupted one's file."""
    told = os.path.join(os.environ["HOOP_TEST_TMP"], "interrupted")
    comm.barrier()
    if RANK == 0:
        end = time.monotonic() + 60
        while not os.path.exists(told):
            assert time.monotonic() < end
            time.sleep(0.05)
        comm.allreduce(mine())
    else:
        work = comm.iallreduce(mine())
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            work.wait()
            raise AssertionError("it was not interrupted")
        except KeyboardInterrupt:
            open(told, "w").close()
            assert work.wait()[0] == 1  # it is still there
    say("ends")


def interrupted_call():
    """Ctrl-C in a blocking call: the ring is over, and the others are told."""
    comm.barrier()
    if RANK == 0:
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            comm.allreduce(mine())
        except KeyboardInterrupt:
            comm_error = error_of(comm.barrier)
            assert comm_error.startswith("HOOP_ERR_ABORTED of rank 0"), comm_error
            say("ends")
    else:
        time.sleep(6)
        say(error_of(lambda: [comm.allreduce(mine()) for _ in range(2)]))  # the first one's data may be here already


def decisions():
    """hoop.ending, which is pure."""
    from hoop.ending import in_flight, leaving_since, note_handled, told, verdict

    assert leaving_since(3.0) == 3.0 and leaving_since(8.0) == 3.0, "two rings leave together"
    note_handled()
    assert leaving_since(9.0) == 9.0, "a call begins it anew"

    assert told(0, None) == told(0, SystemExit(3)) == told(0, GeneratorExit()) == ""
    assert told(2, KeyboardInterrupt()) == "rank 2 was interrupted"
    assert told(0, ValueError("the user's mistake\nat length")) == "rank 0 ended with ValueError: the user's mistake"
    assert told(0, KeyError()) == "rank 0 ended with KeyError"
    mute = type("Mute", (Exception,), {"__str__": lambda self: 1 / 0})()
    assert told(0, mute) == "rank 0 ended with Mute"
    receive, send, other = ("recv", "recv of 4 elements"), ("send", "send of 5 elements"), ("collective", "")
    for pending, quiet, word in (
        ([receive], 4.9, ""), ([receive], 5.0, "recv of 4"), ([receive, send], 59.9, ""), ([receive, send], 60, "send of 5"),
        ([receive, send, other], 1e6, ""), ([other], 1e6, ""),
    ):
        why = verdict(1, pending, quiet)
        assert word in why and bool(word) == bool(why), (pending, quiet, why)

    def fail(handled):
        try:
            raise ValueError("mine")
        except ValueError as error:
            assert in_flight() is error
            if handled:
                note_handled()  # a call of hoop
                assert in_flight() is None
            raise

    for handled in True, False, True:
        try:
            fail(handled)
        except ValueError as error:
            assert in_flight() is error  # it is on its way again
    say("ends")


WAYS = interrupted_call, decisions, in_flight, status, missing, unmatched, uncaught, uncaught_in_with, uncaught_in_finally, uncaught_in_atexit, handled, caught, early, daemon, fork, forked, interrupt
{way.__name__: way for way in WAYS}[sys.argv[1]]()
