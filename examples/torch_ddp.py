# SPDX-License-Identifier: MIT
"""DistributedDataParallel over hoop: the line with backend="hoop" is all that differs from Gloo.

    pip install ./python torch                        # beside an installed hoop
    torchrun --nproc-per-node 4 torch_ddp.py          # this host
    torchrun --nnodes 2 --nproc-per-node 4 --rdzv-backend c10d --rdzv-endpoint HOST:29400 torch_ddp.py   # on each of two

Each rank trains a small net on its own data, and rank 0 prints the loss of every tenth step.
"""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group(backend="hoop")
torch.manual_seed(dist.get_rank())  # the data differ from rank to rank; DDP gives all ranks the net of rank 0
net = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
model = DistributedDataParallel(net)
rule = torch.optim.SGD(model.parameters(), lr=0.05)
weights = torch.linspace(-1, 1, 16)

for step in range(50):
    x = torch.randn(128, 16)
    loss = ((model(x).squeeze(1) - x @ weights) ** 2).mean()
    rule.zero_grad()
    loss.backward()
    rule.step()
    total = loss.detach().clone()
    dist.all_reduce(total, dist.ReduceOp.AVG)
    if dist.get_rank() == 0 and step % 10 == 9:
        print(f"step {step + 1}: mean squared error {total.item():.4f}", flush=True)

dist.destroy_process_group()
