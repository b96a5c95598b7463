"""Runs on a shaped link in tests: two ranks that send each other SIZE bytes at the same time, by plain sockets.

python players.py SIZE            starts the ranks as torchrun would, and prints what rank 0 found as JSON
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

PORT = 29500


def start_ranks(size: str) -> int:
    place = {**os.environ, "MASTER_ADDR": "localhost", "WORLD_SIZE": "2"}
    way = ["-m", "labtui.bench.enter"] if "LABTUI_LINK_RANKS" in os.environ else []
    ranks = [
        subprocess.Popen([sys.executable, *way, __file__, size], env={**place, "RANK": rank, "LOCAL_RANK": rank})
        for rank in ("0", "1")
    ]
    return max(rank.wait() for rank in ranks)


def play(rank: int, size: int) -> None:
    address = (os.environ["MASTER_ADDR"], PORT)
    if rank == 0:
        with socket.create_server(("", PORT)) as server:
            peer, _ = server.accept()
    else:
        peer = connect(address)
    meet(peer)
    start = time.perf_counter()
    sender = threading.Thread(target=peer.sendall, args=(bytes(size),))
    sender.start()
    left = size
    while left:
        left -= len(peer.recv(min(left, 1 << 20)))
    sender.join()
    meet(peer)
    seconds = time.perf_counter() - start
    if rank == 0:
        found = {"seconds": seconds, "uid": os.getuid(), "capabilities": capabilities()}
        found["link"] = json.loads(os.environ["LABTUI_LINK"])
        found["interfaces"] = sorted(name for _, name in socket.if_nameindex())
        print(json.dumps(found), flush=True)


def meet(peer: socket.socket) -> None:
    """Returns when both are here."""
    peer.sendall(b"!")
    peer.recv(1)


def connect(address: tuple[str, int]) -> socket.socket:
    while True:
        try:
            return socket.create_connection(address)
        except ConnectionRefusedError:
            time.sleep(0.01)  # rank 0 is not listening yet


def capabilities() -> int:
    with Path("/proc/self/status").open() as file:
        return next(int(line.split()[1], 16) for line in file if line.startswith("CapEff:"))


if __name__ == "__main__":
    if "RANK" in os.environ:
        play(int(os.environ["RANK"]), int(sys.argv[1]))
    else:
        sys.exit(start_ranks(sys.argv[1]))
