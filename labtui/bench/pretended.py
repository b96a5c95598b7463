"""A process that torch takes for one rank of many: no other rank exists, and collectives return at once.

torch's fake backend does that. Together with fake tensors (FakeTensorMode), which have shapes but no data, the real
code of a distributed training runs in one process on any machine, as if it were rank r of 1,024. What it would hold and
send is then true; what it would compute, and how long it would take, is not.
"""

from __future__ import annotations

from typing import Any

import torch.distributed as dist

from labtui.bench.device import refuse


def join(rank: int, ranks: int) -> Any:
    """Leaves the process group for good and pretends to be `rank` of `ranks`; returns the mesh of all of them (CPU).

    The mesh must be made here, before any FakeTensorMode, where its numbers would be fake as well. Real ranks should
    have nothing left to say to each other. Ends the run where this torch has no fake backend.
    """
    try:
        from torch.testing._internal.distributed.fake_pg import FakeStore
    except ImportError:
        refuse("this torch has no fake backend (torch.testing._internal.distributed.fake_pg): 2.6 or newer is needed")
    dist.barrier()
    dist.destroy_process_group()
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=ranks)
    return dist.init_device_mesh("cpu", (ranks,), mesh_dim_names=("dp",))
