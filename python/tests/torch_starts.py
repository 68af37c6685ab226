# SPDX-License-Identifier: MIT
"""Groups that meet in a store in which earlier starts were killed, and groups one after the other.

    torch_starts.py files | server | again | asks      prints "passed ..." and what it took

The ranks are children of this process, which has imported torch for them: so a start takes as long as its meeting.
"""

import os
import random
import signal
import sys
import tempfile
import time
from datetime import timedelta

import torch
import torch.distributed as dist

SIZE, KILLS, SEED = 3, 20, 27
LIMIT = timedelta(seconds=60)  # of a start; the bound of the test is half of it, and the usual is far below a second


def rank_runs(store, rank, life):
    """In the child: a group is made, used, and left."""
    code = 1
    try:
        life(store(), rank)
        code = 0
    except BaseException as why:
        print(f"rank {rank}: {type(why).__name__}: {why}", flush=True)
    finally:
        os._exit(code)


def start(store, ranks, life):
    pids = []
    for rank in ranks:
        pids.append(os.fork())
        if pids[-1] == 0:
            rank_runs(store, rank, life)
    return pids


def kill(pids):
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    for pid in pids:
        os.waitpid(pid, 0)


def all_end(pids, what, seconds=LIMIT.total_seconds() / 2):
    """All ranks end well before half of the limit of a start."""
    left, deadline = set(pids), time.monotonic() + seconds
    while left and time.monotonic() < deadline:
        for pid in list(left):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                left.remove(pid)
                assert status == 0, f"{what}: a rank ended with status {status}"
        time.sleep(0.002)
    kill(left)
    assert not left, f"{what}: {len(left)} ranks did not end within {seconds} s"


def one_life(store, rank):
    dist.init_process_group("hoop", store=store, rank=rank, world_size=SIZE, timeout=LIMIT)
    x = torch.ones(3)
    dist.all_reduce(x)
    assert x.tolist() == [SIZE] * 3
    dist.destroy_process_group()


def many_lives(store, rank):
    """Ranks of different speed: a fast one asks for the next group while others are still in this one's start."""
    dice = random.Random(SEED + rank)
    for _ in range(30):
        time.sleep(dice.choice([0, 0, 0.01, 0.05]))
        one_life(store, rank)


class Server:
    """A process with the server of a store, as torchrun's agent: this one forks, so it must not have the server's thread."""

    def __enter__(self):
        port, told = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            host = dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
            os.write(told, str(host.port).encode())
            signal.alarm(600)
            signal.pause()
        number = int(os.read(port, 16))
        return lambda: dist.TCPStore("127.0.0.1", number, None, False, wait_for_workers=False)

    def __exit__(self, *why):
        kill([self._pid])


def killed_starts(store):
    dice, took = random.Random(SEED), []
    for turn in range(KILLS):
        some = dice.sample(range(SIZE), dice.choice([1, 2, 2, 3]))
        pids = start(store, some, one_life)
        time.sleep(dice.uniform(0, 0.25))
        kill(pids)
        began = time.monotonic()
        all_end(start(store, range(SIZE), one_life), f"the start after ranks {some} were killed, turn {turn}, seed {SEED}")
        took.append(time.monotonic() - began)
    print(f"{KILLS} starts after kills: the longest took {max(took):.2f} s, all {sum(took):.1f} s", flush=True)


def files(folder):
    """A file that is kept over all starts."""
    path = os.path.join(folder, "store")
    keep = dist.FileStore(path, -1)  # the last to close a file removes it
    killed_starts(lambda: dist.FileStore(path, SIZE))
    del keep


def server(folder):
    """One server of a store for all starts, as torchrun --master-port --max-restarts has it."""
    with Server() as store:
        killed_starts(store)


def again(folder):
    """A group, its end and the next one, again and again over one store."""
    with Server() as store:
        all_end(start(store, range(SIZE), many_lives), "groups in turn")


def asks(folder):
    """Who answers whom, step by step."""
    from hoop.torch.invitation import Host

    store = dist.HashStore()
    said = lambda: store.get("answers/1").decode()
    store.set("asks/1", "old - -")
    first = Host(store, 3, "A", lambda number, proof: f"text for {proof}")
    assert not first.look() and said() == "old A text for -", "an ask of a killed start is answered, for nobody"
    store.set("asks/1", "new p -")
    assert not first.look() and said() == "new A text for p", "the ask of this start as well"
    store.set("asks/2", "two - X")
    store.set("asks/1", "- - A")
    assert not first.look() and store.get("answers/2") == b"two A text for -" and said() == "", "what is taken leaves"
    store.set("asks/1", "next - A")
    assert not first.look() and said() == "", "a rank that is ahead has no answer of this group"
    store.set("asks/2", "again - A")
    assert first.look() and store.get("answers/2") == b"", "two asks between two looks"
    second = Host(store, 3, "B", lambda number, proof: "other")
    assert not second.look() and said() == "next B other" and store.get("answers/2") == b"again B other"
    store.set("asks/1", "of-another-version")
    assert not second.look(), "an ask of another version of this package disturbs nobody"


if __name__ == "__main__":
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        globals()[sys.argv[1]](scratch)
    print(f"passed {sys.argv[1]}", flush=True)
