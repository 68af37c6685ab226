# SPDX-License-Identifier: MIT
"""Ctrl-C (SIGINT) for rank 1 in every call that blocks: it ends, and the others hear who was interrupted.

Without arguments this starts three ranks for each way, as plain processes beside a server of its own, and says what they
said; or for the ways that are named. A rank is the same program with a way and a number.
"""

import array
import os
import signal
import subprocess
import sys
import threading
import time

import hoop

SOON = 5.0  # seconds, for a machine under load; the calls would last for a minute or more


def mine(count=1):
    return array.array("i", [1]) * count


def at_it(rank):
    print(f"rank {rank}: at it", flush=True)


def joined():
    comm = hoop.Comm()
    comm.barrier()
    return comm


def late(comm):
    """What the other ranks do when rank 1 was interrupted. Its part of the first barrier may be here already."""
    sys.stdin.readline()
    comm.barrier()
    comm.barrier()


def refused(call):
    try:
        call()
    except RuntimeError:  # HoopError is one
        return
    raise AssertionError("an operation that was interrupted has ended well")


def create(rank):
    """Ranks 0 and 1 wait for rank 2."""
    if rank < 2:
        at_it(rank)
        hoop.Comm()


def split(rank):
    """Likewise."""
    comm = joined()
    if rank < 2:
        at_it(rank)
        comm.split(0)
    else:
        sys.stdin.read()


def in_flight(rank, act):
    """`act` waits for an operation that the others do not enter."""
    comm = joined()
    if rank == 1:
        work = comm.iallreduce(mine())
        at_it(rank)
        try:
            act(comm, work)
        finally:
            refused(work.wait)
    late(comm)


def leave(rank):
    in_flight(rank, lambda comm, _: comm.destroy())


def wait_or_fail(rank):
    in_flight(rank, lambda _, work: work.wait_or_fail(100))


def call(rank):
    comm = joined()
    if rank == 1:
        at_it(rank)
        comm.barrier()
    late(comm)


def message(rank):
    comm = joined()
    if rank == 1:
        at_it(rank)
        comm.recv(mine(), 0)
    late(comm)


def group(rank):
    comm = joined()
    if rank == 1:
        at_it(rank)
        with comm.group():
            comm.allreduce(mine())
    late(comm)


def handled(rank):
    """A handler that raises nothing ends nothing, and may itself call hoop."""
    comm, seen = joined(), []

    def handle(*_):
        hoop.Comm(rank=0, size=1, rendezvous="").barrier()
        seen.append(comm.completed)
        print("rank 1: interrupted", flush=True)

    signal.signal(signal.SIGINT, handle)
    if rank == 1:
        at_it(rank)
        comm.barrier()
        comm.barrier()
        assert seen == [1], seen
    else:
        late(comm)
    comm.barrier()


# --- ranks ---------------------------------------------------------------------------------------------------------------


def run_rank(way, rank):
    try:
        way(rank)
        print(f"rank {rank}: ends", flush=True)
    except KeyboardInterrupt:
        print(f"rank {rank}: interrupted", flush=True)
        raise
    except RuntimeError as error:
        print(f"rank {rank}: failed: {error}", flush=True)


class Ranks:
    """The ranks of one way, and the lines that they print, as these come."""

    def __init__(self, program, way):
        self.lines, self._new = [], threading.Condition()
        secret, self._folder = hoop.new_secret(), os.environ["HOOP_TEST_TMP"]
        self._server = hoop.Server(rendezvous="127.0.0.1:0", secret=secret, job=way)
        path = os.path.join(self._folder, f"secret-{way}")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
            file.write(secret)
        setting = {"RENDEZVOUS": self._server.address, "SECRET_FILE": path, "JOB": way, "SIZE": "3"}
        self._environment = os.environ | {f"HOOP_{key}": value for key, value in setting.items()}
        self.ranks = [self._start([sys.executable, program, way, str(rank)]) for rank in range(3)]

    def _start(self, command):
        environment = self._environment | {"HOOP_RANK": command[-1]}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
        process = subprocess.Popen(command, **pipes, env=environment)
        threading.Thread(target=self._read, args=[process.stdout], daemon=True).start()
        return process

    def _read(self, pipe):
        for line in pipe:
            with self._new:
                self.lines.append(line.strip())
                self._new.notify()

    def awaits(self, text, seconds=40.0):
        """Whether there is, or comes, a line with this text."""
        with self._new:
            return self._new.wait_for(lambda: any(text in line for line in self.lines), seconds)

    def go_on(self, rank):
        self.ranks[rank].stdin.write("\n")
        self.ranks[rank].stdin.flush()

    def end(self):
        for process in self.ranks:
            process.kill()
            process.wait()
        self._server.stop()


def run_way(program, way, told):
    """told: the ranks that hear of it; []: the handler raises nothing, and all end well; None: nobody can hear."""
    ranks = Ranks(program, way)
    well = ranks.awaits("rank 1: at it")
    time.sleep(6 if way == "create" else 2)  # it is inside the call then, and has reached the server, so that others hear
    waits = ranks.awaits("rank 0: at it", 0.0)
    began = time.monotonic()
    ranks.ranks[1].send_signal(signal.SIGINT)
    well = ranks.awaits("rank 1: interrupted") and well
    lasted = time.monotonic() - began
    if told and not waits:
        ranks.ranks[1].wait(40)  # the others call something else, so they must not begin before they have been told
        began = time.monotonic()
    for rank in (0, 2) if not waits else ():
        ranks.go_on(rank)
    for rank in told or ():
        well = ranks.awaits(f"rank {rank}: failed: ") and well
    heard = time.monotonic() - began
    if told == []:
        well = all([ranks.awaits(f"rank {rank}: ends") for rank in range(3)]) and well
    ranks.end()
    reasons = [line for line in ranks.lines if "failed: " in line]
    well = well and all("rank 1 was interrupted" in line for line in reasons) and lasted < SOON and heard < 2 * SOON
    print(f"{'passed' if well else 'failed'} {way} after {lasted:.2f} s, the others {heard:.2f} s", flush=True)
    if not well:
        print(*ranks.lines, sep="\n")
    return well


def main(program, ways):
    """ways: functions, each with the ranks that hear of it."""
    names = {way.__name__: way for way in ways}
    if len(sys.argv) == 3 and sys.argv[2].isdigit():
        return run_rank(names[sys.argv[1]], int(sys.argv[2]))
    sys.exit(not all([run_way(program, name, ways[names[name]]) for name in sys.argv[1:] or names]))


if __name__ == "__main__":
    BOTH = 0, 2
    main(
        __file__,
        {
            create: [0],
            split: [0],
            leave: BOTH,
            wait_or_fail: BOTH,
            call: BOTH,
            message: BOTH,
            group: BOTH,
            handled: [],
        },
    )
