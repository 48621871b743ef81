"""all_reduce with gloo through torch.distributed, in the lines of bench_allreduce.c.

    rival_allreduce_gloo.py RANKS MOST_MIB PORT
"""
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

WARM_N = 2


def call_n_for(size):
    return 41 if size <= 1 << 20 else 21 if size <= 16 << 20 else 9


def rank_main(rank, world, most_bytes, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port, GLOO_SOCKET_IFNAME="lo")
    torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // world))
    dist.init_process_group("gloo", rank=rank, world_size=world)
    size = 4096
    while size <= most_bytes:
        for name, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
            n = size // dtype.itemsize
            start = (torch.arange(n, dtype=torch.int32) % 64).to(dtype)
            x = torch.empty(n, dtype=dtype)
            times = []
            for k in range(WARM_N + call_n_for(size)):
                x.copy_(start)
                dist.barrier()
                begin = time.perf_counter()
                dist.all_reduce(x)
                if k >= WARM_N:
                    times.append(time.perf_counter() - begin)
            slowest = torch.tensor(times, dtype=torch.float64)
            dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
            times = sorted(slowest.tolist())
            if rank == 0:
                print(f"gloo {name} {size} {times[len(times) // 2] * 1e6:.2f} {times[0] * 1e6:.2f} {len(times)}", flush=True)
        size *= 4
    dist.destroy_process_group()


if __name__ == "__main__":
    ranks = int(sys.argv[1])
    mp.spawn(rank_main, args=(ranks, int(sys.argv[2]) << 20, sys.argv[3]), nprocs=ranks)
