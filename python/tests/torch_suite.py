# SPDX-License-Identifier: MIT
"""PyTorch's own tests of a backend, from the installed torch: torch.testing._internal.distributed.distributed_test.

    python3 torch_suite.py [--gate BACKEND] [--ranks N] [--limit SECONDS] [--total SECONDS] [--log FOLDER] BACKEND [TEST ...]

prints a line for each test: its name, passed, skipped, failed, hung (longer than --limit) or late (not begun before
--total was over), and the seconds it took. Without names all tests run. BACKEND is what init_process_group gets; --gate
is the backend that the tests' decorators see (default: BACKEND), so that `--gate mpi hoop` runs with hoop what torch
keeps for MPI. With HOOP_TORCH_REPLACE=gloo the backend gloo is hoop.

torch is imported once. Each test runs in N new processes, forked from this one before it starts any thread.
"""

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path


def prepare(options, scratch):
    """The class of torch's tests, as decorated for the gate, with the backend in its place."""
    for folder in ("barrier", "test_dir", "init_dir"):
        (scratch / folder).mkdir()
    os.environ.update(TEMP_DIR=str(scratch), WORLD_SIZE=str(options.ranks), BACKEND=options.gate)
    os.environ.update(MASTER_ADDR="127.0.0.1", GLOO_SOCKET_IFNAME="lo", HOOP_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1")
    import torch

    torch.set_num_threads(1)
    if not hasattr(torch, "_import_device_backends"):  # before torch 2.5 nothing loads a backend by itself
        import hoop.torch

        hoop.torch.register()
    from torch.testing._internal.common_distributed import DistTestCases
    from torch.testing._internal.distributed import distributed_test as suite

    for feature in ("ddp", "subgroup", "plugin"):
        DistTestCases.backend_feature[feature].add(options.backend)
    suite.BACKEND = options.backend
    os.environ["BACKEND"] = "mpi"  # read while tests run: others than MPI skip group tests below 8 ranks

    class Suite(suite.TestDistBackend, suite.DistributedTest._DistTestBase):
        pass

    return Suite


def run_rank(suite, name, rank, meeting, log):
    """One rank of a test, in a process of its own, which ends here."""
    os.setpgid(0, 0)
    with open(log, "wb", 0) as out:
        os.dup2(out.fileno(), 1)
        os.dup2(out.fileno(), 2)
    import multiprocessing

    code = 1
    try:
        suite.setUpClass()
        ends = multiprocessing.Pipe()
        suite._run(rank, name, meeting, ends[0])
        code = 0
    except SystemExit as end:
        code = end.code or 0
    except BaseException:
        import traceback

        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    end_process(code)


def end_process(code):
    """Ends as the interpreter does: functions of atexit first, so that a backend that hangs or crashes there is seen."""
    import atexit

    atexit._run_exitfuncs()
    os._exit(code)


def wait_for(pids, limit):
    """Exit statuses of all, None where the time was up first; nothing of them is left."""
    statuses = dict.fromkeys(pids)
    end = time.monotonic() + limit
    while None in statuses.values() and time.monotonic() < end:
        for pid in [p for p in pids if statuses[p] is None]:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                statuses[pid] = os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    for pid in pids:
        try:
            os.killpg(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        if statuses[pid] is None:
            os.waitpid(pid, 0)
    return list(statuses.values())


def outcome(statuses):
    if None in statuses:
        return "hung"
    if any(72 <= s <= 89 for s in statuses) and all(s == 0 or 72 <= s <= 89 for s in statuses):
        return "skipped"
    return "passed" if not any(statuses) else "failed"


def run_test(suite, name, options, scratch):
    for folder in ("barrier", "test_dir"):
        shutil.rmtree(scratch / folder, ignore_errors=True)
        (scratch / folder).mkdir()
    meeting = scratch / "init_dir" / name
    logs = [options.log / f"{name}.{rank}" for rank in range(options.ranks)]
    pids = []
    for rank in range(options.ranks):
        pid = os.fork()
        if pid == 0:
            run_rank(suite, name, rank, str(meeting), logs[rank])
        pids.append(pid)
    return outcome(wait_for(pids, options.limit))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gate")
    parser.add_argument("--ranks", type=int, default=3)
    parser.add_argument("--limit", type=float, default=120)
    parser.add_argument("--total", type=float, default=1800)
    parser.add_argument("--log", type=Path)
    parser.add_argument("backend")
    parser.add_argument("tests", nargs="*")
    options = parser.parse_args()
    options.gate = options.gate or options.backend
    scratch = Path(tempfile.mkdtemp(prefix="hoop-suite-"))  # TemporaryDirectory would remove it in each rank, too
    try:
        options.log = options.log or scratch / "log"
        options.log.mkdir(parents=True, exist_ok=True)
        suite = prepare(options, scratch)
        end = time.monotonic() + options.total
        for name in options.tests or sorted(n for n in dir(suite) if n.startswith("test_")):
            start = time.monotonic()
            result = run_test(suite, name, options, scratch) if start < end else "late"
            print(f"{name} {result} {time.monotonic() - start:.1f}", flush=True)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
