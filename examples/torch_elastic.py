# SPDX-License-Identifier: MIT
"""Training that goes on when a process dies, and takes in a new one: reconfigure() of PyTorch 2.15, on hoop.

    pip install ./python torch        # beside an installed hoop
    python3 torch_elastic.py          # three members on this host; one is killed at step 20, another takes its place

The parent is what a scheduler would be. It has a store with the list of the members, "TURN NAME NAME ...", and writes
a new one when a member has died or a new one is ready. A member that sees a new list passes its handle on through the
store, takes those of the others, and all of them reconfigure. They take step and parameters from the one that is ahead.
If a member dies in an operation, the others get an error, have not used the result, and wait for the next list.
"""

import hashlib
import os
import signal
import subprocess
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist

SIZE, STEPS, FULL_AT = 3, 60, 40  # from step FULL_AT on this training wants all members
WEIGHTS = torch.linspace(-1, 1, 16)


def loss_of(net, step):
    made = torch.Generator().manual_seed(SIZE * step + dist.get_rank())
    x = torch.randn(128, 16, generator=made)
    return ((net(x).squeeze(1) - x @ WEIGHTS) ** 2).mean()


def train(net, step):
    """One step, in which nothing changes before the sum of all gradients is here."""
    net.zero_grad()
    loss = loss_of(net, step)
    loss.backward()
    gradients = torch.cat([p.grad.view(-1) for p in net.parameters()] + [loss.detach().view(1)])
    dist.all_reduce(gradients, dist.ReduceOp.AVG)
    with torch.no_grad():
        for p, gradient in zip(net.parameters(), gradients.split([p.numel() for p in net.parameters()] + [1])):
            p -= 0.05 * gradient.view_as(p)
    return gradients[-1].item()


def agree(net, step):
    """All have the step and the parameters of the member that is ahead, the lowest of several."""
    steps = [torch.zeros(1, dtype=torch.int64) for _ in range(dist.get_world_size())]
    dist.all_gather(steps, torch.tensor([step]))
    most = max(steps)
    vector = torch.nn.utils.parameters_to_vector(net.parameters()).detach()
    dist.broadcast(vector, group_src=steps.index(most))
    torch.nn.utils.vector_to_parameters(vector, net.parameters())
    return int(most)


def turn_of(store):
    return store.get("members").decode().split()[0]


def next_turn(store, turn):
    """Returns when there is another list."""
    while turn_of(store) == turn:
        time.sleep(0.01)


def join(store, name, net, step):
    """This member is in the newest ring: its turn, and the step to go on from."""
    while True:
        turn, *members = store.get("members").decode().split()
        store.set(f"{turn}/{name}", dist._get_reconfigure_handle())
        keys = [f"{turn}/{member}" for member in members]
        while turn_of(store) == turn and not store.check(keys):
            time.sleep(0.01)
        try:
            if turn_of(store) == turn:
                handles = [store.get(key).decode() for key in keys]
                dist._reconfigure(int(turn), handles, timeout=timedelta(seconds=60)).wait()
                return turn, agree(net, step)
        except dist.DistBackendError as why:  # one of them has died meanwhile
            print(f"member {name}: {why}", flush=True)
        next_turn(store, turn)


def member(name, port):
    store = dist.TCPStore("127.0.0.1", port, None, False, wait_for_workers=False)
    dist.init_process_group("hoop", store=dist.HashStore(), rank=0, world_size=1, enable_reconfigure=True)
    torch.manual_seed(name)
    net = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
    store.set(f"ready/{name}", "")
    while str(name) not in store.get("members").decode().split()[1:]:
        time.sleep(0.01)
    turn, step = join(store, name, net, 0)
    print(f"member {name} joins at step {step}", flush=True)
    while step < STEPS:
        if name == 1 and step == 20:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            if step == FULL_AT and dist.get_world_size() < SIZE:
                next_turn(store, turn)
            if turn_of(store) != turn:
                turn, step = join(store, name, net, step)
                continue
            loss = train(net, step)
            step += 1
        except dist.DistBackendError as why:
            print(f"member {name}, step {step}: {why}", flush=True)
            next_turn(store, turn)
    vector = torch.nn.utils.parameters_to_vector(net.parameters()).detach()
    digest = hashlib.sha256(vector.numpy().tobytes()).hexdigest()[:16]
    print(f"member {name}, step {step}: mean squared error {loss:.4f}, parameters {digest}", flush=True)
    dist.destroy_process_group()


def start(name, store):
    return subprocess.Popen([sys.executable, __file__, str(name), str(store.port)])


def main():
    store = dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
    store.set("members", "0")
    running = {name: start(name, store) for name in range(SIZE)}
    members, turn, names, finished = set(), 0, SIZE, False
    while running:
        time.sleep(0.01)
        ended = [name for name, process in running.items() if process.poll() is not None]
        dead = [name for name in ended if running.pop(name).returncode]
        finished = finished or len(dead) < len(ended)
        for name in dead:
            print(f"member {name} has died", flush=True)
            if not finished:
                running[names] = start(names, store)
                names += 1
        ready = [name for name in running if store.check([f"ready/{name}"])]
        if dead or set(ready) - members and (turn or len(ready) == SIZE):  # the first list has all
            members, turn = set(ready), turn + 1
            store.set("members", " ".join(map(str, [turn, *ready])))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main() if len(sys.argv) == 1 else member(int(sys.argv[1]), int(sys.argv[2]))
