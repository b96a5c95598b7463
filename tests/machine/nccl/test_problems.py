"""Kinds of trouble, above all those that no log of the corpus shows: texts as the programs print them, one by one."""

# ruff: noqa: E501 (lines of logs are as long as they are)

from __future__ import annotations

import pytest

from labtui.machine.nccl import Reader, Report

HEAD = "node-a:10:11 [3] "


def read(*lines: str) -> Report:
    reader = Reader()
    reader.feed("".join(line + "\n" for line in lines).encode())
    reader.finish()
    return reader.report()


def warn(file: str, text: str) -> str:
    return f"{HEAD}{file}:42 NCCL WARN {text}"


NET_IB, SOCKET = "transport/net_ib.cc", "misc/socket.cc"

WARNINGS = [
    ("socket_connect_refused", SOCKET, "socketStartConnect: Connect to 10.0.0.2<40001> failed : Connection refused"),
    ("socket_connect_refused", SOCKET, "socketPollConnect: Connect to 10.0.0.2<45> returned 111(Connection refused) errno 0(Success)"),
    ("socket_connect_refused", SOCKET, "socketFinalizeConnect: connect to 10.0.0.2<4> returned Connection refused, exceeded error retry count after 35 attempts"),
    ("socket_no_route", SOCKET, "socketPollConnect: Connect to 10.0.0.4<56849> returned 113(No route to host) errno 115(Operation now in progress)"),
    ("socket_no_route", "include/socket.h", "Connect to fe80::42%veth1<4> failed : No route to host"),
    ("socket_timeout", "include/socket.h", "Call to connect failed : Connection timed out"),
    ("socket_timeout", SOCKET, "socketPollConnect: exceeded timeouts (20000)"),
    ("socket_connect_failed", SOCKET, "socketStartConnect: Connect to 10.0.0.4<5> failed : Network is unreachable"),
    ("socket_connect_failed", SOCKET, "ncclOsSocketPollConnect to 10.0.0.4<5> failed with error Cannot assign requested address"),
    ("socket_connect_failed", "bootstrap.cc", "Bootstrap : no socket interface found"),
    ("socket_closed_by_peer", SOCKET, "socketProgressOpt: Call to recv from 10.0.0.2<4> failed : Connection reset by peer"),
    ("socket_closed_by_peer", SOCKET, "socketProgressOpt: Call to send to 10.0.0.2<4> failed : Broken pipe"),
    ("address_in_use", SOCKET, "Call to bind failed : Address already in use"),
    ("proxy_failed", "proxy.cc", "[Proxy Service 3] Failed to execute operation Connect from rank 3, retcode 3"),
    ("proxy_failed", "proxy.cc", "ncclProxyClientGetFd call to tpRank 1 handle 0x7f failed : 3"),
    ("shm_no_space", "misc/shmutils.cc", "Error: failed to extend /dev/shm/nccl-a8 to 9637892 bytes, error: No space left on device (28)"),
    ("shm_attach_failed", "misc/shmutils.cc", "Error while creating shared memory segment /dev/shm/nccl-a (size 9), error: Permission denied (13)"),
    ("shm_attach_failed", "misc/shmutils.cc", "Call to open failed: No such file or directory"),
    ("p2p_ipc_failed", "transport/p2p.cc", "Cuda failure 'invalid resource handle'"),
    ("p2p_ipc_failed", "transport/p2p.cc", "hipIpcGetMemHandle failed : invalid argument"),
    ("p2p_ipc_failed", "init.cc", "Cuda failure 711 'peer mapping resources exhausted'"),
    ("p2p_unavailable", "graph/paths.cc", "P2P is disabled between NVLINK connected GPUs 5 and 4. This should not be the case given their connectivity"),
    ("cuda_oom", "include/alloc.h", "Cuda failure 2 'out of memory'"),
    ("cuda_error", "enqueue.cc", "Cuda failure 700 'an illegal memory access was encountered'"),
    ("cuda_error", "enqueue.cc", "HIP failure: 'unspecified launch failure'"),
    ("cuda_lib_missing", "misc/cudawrap.cc", "Failed to find CUDA library libcuda.so (NCCL_CUDA_PATH='') : "),
    ("nvls_failed", "transport/nvls.cc", "Cuda failure 1 'invalid argument'"),
    ("nvls_failed", "transport/nvls.cc", "Failed to bind NVLink SHARP (NVLS) Multicast memory of size 2097152 : CUDA error 401 'not now'."),
    ("nvls_failed", "transport/multicast.cc", "Failed to multicast-bind user buffer: CUDA error 2 'x'"),
    ("mnnvl_imex", "mnnvl.cc", "MNNVL (cliqueSize 8) is available but not working on this system. Check the IMEX configuration (nvidia-imex-ctl -N)."),
    ("collnet_unavailable", "transport.cc", "Cannot initialize CollNet, using point-to-point network instead"),
    ("ibverbs_missing", "misc/ibvwrap.cc", "Failed to open libibverbs.so[.1]"),
    ("ib_qp_create_failed", "misc/ibvwrap.cc", "Call to ibv_create_qp failed with error Cannot allocate memory"),
    ("ib_qp_create_failed", "misc/ibvwrap.cc", "Call to ibv_modify_qp failed with error Connection timed out errno 110"),
    ("ib_cq_create_failed", "misc/ibvwrap.cc", "Call to ibv_create_cq failed with error Cannot allocate memory"),
    ("ib_completion_error", NET_IB, "NET/IB : Got completion from peer 10.0.0.2<54862> with status=12 opcode=0 len=0 vendor err 129 (Recv)"),
    ("ib_completion_error", NET_IB, "NET/IB : Got completion from peer fe80::96%ib0<53249> with error 4, opcode 32564, len 32564, vendor err 81 (Send)"),
    ("ib_completion_error", NET_IB, "NET/IB: Got completion from peer 10.0.0.2<5> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_SEND(0) reqSize=4"),
    ("ib_port_failed", NET_IB, "NET/IB : mlx5_2:1 Got async event : port error"),
    ("ib_port_failed", NET_IB, "NET/IB : Got async event : GID table change"),
    ("ib_port_failed", NET_IB, "NET/IB : mlx5_2:1 async fatal event on QP (0x7f): local work queue catastrophic error"),
    ("ib_port_failed", NET_IB, "NET/IB: Device 2 marked as failed. Initiating recovery? yes (send comm=0x7f, outstandingRecovery=1)"),
    ("ofi_error", "ofi_process_cq", "NET/OFI Request 0x7f8e completed with error. RC: 21. Error: unknown error. Completed length: 0"),
    ("pci_path_missing", "graph/xml.cc", "Could not find real path of /sys/class/pci_bus/0000:01/../../0000:01:00.0"),
    ("collective_mismatch", NET_IB, "NET/IB : req 0/1 tag 1 peer 10.0.0.3<5> posted incorrect receive info: size 65536 addr 0 rkey 0"),
    ("collective_mismatch", "transport/net_socket.cc", "NET/Socket : peer 10.0.0.2<3> message truncated : receiving 1048576 bytes instead of 65536. If"),
    ("collective_mismatch", "bootstrap.cc", "Message truncated : received 512 bytes instead of 256"),
    ("duplicate_gpu", "init.cc", "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 31000"),
    ("other", "init.cc", 'Missing "iommu=pt" from kernel command line which can lead to system instablity or hang!'),
    ("other", "init.cc", "NUMA auto balancing enabled which can lead to variability in the RCCL performance!"),
    ("other", "init.cc", "NCCL version 2.18.3+cuda12.2"),
    ("other", "net_plugin.c", "NET/FasTrak ver 1.0.7 loaded"),
    ("other", "misc/param.cc", "Something that nobody has seen before"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "file", "text"), WARNINGS)
def test_a_warning_has_its_kind_wherever_it_is_told(kind: str, file: str, text: str) -> None:
    assert read(warn(file, text)).warnings == (kind,)
    # 2.28 and later print the time before warnings, 2.32 the function; people cut heads off; lines have no end.
    assert read(f"[2026-04-22 21:46:20] {HEAD}{file}:42 (ncclDoIt) NCCL WARN {text}").warnings == (kind,)
    assert read(f"[3] {file}:42 NCCL WARN {text}").warnings == (kind,)
    assert read(f"{file}:42 NCCL WARN {text}").warnings == (kind,)
    report = Reader()
    report.feed(warn(file, text).encode())
    report.finish()
    if "nobody" not in text:
        assert report.report().warnings == (kind,)


@pytest.mark.parametrize(("kind", "file", "text"), WARNINGS)
def test_every_kind_has_a_diagnosis(kind: str, file: str, text: str) -> None:
    report = read(warn(file, text))
    assert report.diagnosis.endswith(".")
    assert "  " not in report.diagnosis and "None" not in report.diagnosis
    if kind not in ("other", "ibverbs_missing", "cuda_lib_missing"):
        assert ";" in report.diagnosis or "," in report.diagnosis


OUTSIDE = [
    ({"child_failed", "sigbus"}, "E0626 06:42:49.02 9 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: -7) local_rank: 1 (pid: 21) of binary: python"),
    ({"sigbus"}, "[node-a:06416] Signal: Bus error (7)"),
    ({"segfault"}, "mpirun noticed that process rank 3 with PID 0 on node node-a exited on signal 11 (Segmentation fault)."),
    ({"sigkill"}, "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=7.0. Some of your processes may have been killed"),
    ({"rendezvous_failed"}, "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError"),
    ({"rendezvous_failed"}, "torch.distributed.elastic.rendezvous.api.RendezvousClosedError"),
    ({"rendezvous_failed"}, "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to the C10d store has failed."),
    ({"rendezvous_failed"}, "torch.distributed.DistStoreError: Timed out after 1801 seconds waiting for clients. 1/3 clients joined."),
    (set(), "WARNING:torch.distributed.elastic.rendezvous.dynamic_rendezvous:The node 'a_1' has failed to shutdown the rendezvous 'none' due to an error of type RendezvousConnectionError."),
    (set(), "INFO:torch.distributed.elastic.agent.server.api:[default] Rendezvous complete for workers. Result: restart_count=0"),
    ({"socket_connect_refused"}, "[W socket.cpp:663] [c10d] The client socket has failed to connect to [node-a]:29500 (errno: 111 - Connection refused)."),
    ({"socket_no_route"}, "[W socket.cpp:663] [c10d] The client socket has failed to connect to [node-a]:29500 (errno: 113 - No route to host)."),
    ({"socket_timeout"}, "torch.distributed.DistNetworkError: The client socket has timed out after 60000ms while trying to connect to (10.0.0.1, 29500)."),
    ({"socket_timeout"}, "RuntimeError: [1] is setting up NCCL communicator and retreiving ncclUniqueId from [0] via c10d key-value store by key '0', but store->get('0') got error: Socket Timeout"),
    ({"socket_closed_by_peer"}, "torch.distributed.DistBackendError: [1] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value store by key '0', but store->get('0') got error: Connection reset by peer. This may indicate a possible application crash on rank 0 or a network set up issue."),
    ({"collective_mismatch"}, "RuntimeError: Detected mismatch between collectives on ranks. Rank 0 is running collective: CollectiveFingerPrint(SequenceNumber=3, OpType=ALLREDUCE), but Rank 1 is running"),
    ({"watchdog_timeout"}, "[rank1]:[E ProcessGroupNCCL.cpp:1316] [PG 0 Rank 1] Heartbeat monitor timed out! Process will be terminated after dumping debug info."),
    ({"watchdog_timeout"}, "[E ProcessGroupNCCL.cpp:587] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(OpType=BROADCAST, Timeout(ms)=1800000) ran for 1808251 milliseconds before timing out."),
    ({"watchdog_timeout"}, "[rank2]: RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation to complete"),
    ({"gloo_connect_failed"}, "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:799] connect [127.0.1.1]:19123: Connection refused"),
    ({"socket_closed_by_peer"}, "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:598] Connection closed by peer [10.0.0.2]:4121"),
    ({"address_in_use"}, "RuntimeError: The server socket has failed to listen on any local network address. port: 29500, code: -98, name: EADDRINUSE"),
    ({"cuda_oom"}, "[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 79 GiB"),
    ({"cuda_error"}, "RuntimeError: NCCL error in: ../ProcessGroupNCCL.cpp:784, unhandled cuda error, NCCL version 2.7.8"),
]  # fmt: skip


@pytest.mark.parametrize(("kinds", "line"), OUTSIDE)
def test_what_other_programs_print_has_its_kinds(kinds: set[str], line: str) -> None:
    report = read(line)
    assert set(report.warnings) == kinds
    assert report.kind in ("torchrun", "gloo")
    if "gloo" in line:
        assert report.kind == "gloo"


def test_a_retry_is_no_failure_and_a_missing_library_told_as_information_none() -> None:
    report = read(
        f"{HEAD}NCCL INFO Call to connect returned Connection refused, retrying",
        f"{HEAD}NCCL INFO Failed to open libibverbs.so[.1]",
    )
    assert report.warnings == ()


def test_an_unknown_warning_beside_a_known_one_only_follows() -> None:
    known = warn("include/alloc.h", "Cuda failure 2 'out of memory'")
    assert read(warn("a.cc", "Nobody knows this"), known).warnings == ("cuda_oom",)
    assert "Nobody knows this" in read(warn("a.cc", "Nobody knows this")).diagnosis


def test_a_port_event_told_as_information_counts() -> None:
    assert read(f"{HEAD}NCCL INFO NET/IB : mlx5_1:1 Got non-fatal async event: port active(9)").warnings == (
        "ib_port_failed",
    )


def test_what_pytorch_tells_again_counts_only_where_the_warning_is_missing() -> None:
    again = [
        "[rank0]: ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.",
        "[rank0]: Last error:",
        "[rank0]: Error while attaching to shared memory segment /dev/shm/nccl-q (size 14), error: No such file or directory (2)",
    ]  # fmt: skip
    assert read(*again).warnings == ("shm_attach_failed",)
    report = read(warn("misc/shmutils.cc", "Call to open failed: No such file or directory"), *again)
    assert (report.warnings, report.evidence[0].count) == (("shm_attach_failed",), 1)


def test_the_cause_stands_before_what_follows_from_it() -> None:
    report = read(
        warn("misc/socket.cc", "socketProgress: Connection closed by remote peer node-b<57557>"),
        warn("proxy.cc", "Socket recv failed while polling for opId=0x7f2c"),
        warn("misc/shmutils.cc", "Error: failed to extend /dev/shm/nccl-Q to 5967876 bytes"),
    )
    assert report.warnings == ("shm_no_space", "proxy_failed", "socket_closed_by_peer")
    assert "/dev/shm" in report.diagnosis and "follow" in report.diagnosis


def test_the_watchdog_s_ranks_that_waited_in_different_collectives_are_told_apart() -> None:
    line = "[rank{0}]:[E626 ProcessGroupNCCL.cpp:616] [Rank {0}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={1}, OpType={2}, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600041 milliseconds before timing out."
    report = read(
        line.format(0, 41, "ALLREDUCE"), line.format(1, 40, "_ALLGATHER_BASE"), line.format(2, 41, "ALLREDUCE")
    )
    assert "ranks 0 and 2 in allreduce number 41" in report.diagnosis
    assert "rank 1 in allgather_base number 40" in report.diagnosis


def test_the_store_names_who_is_missing_and_where() -> None:
    report = read(
        "torch.distributed.DistStoreError: Timed out after 1801 seconds waiting for clients. 1/3 clients joined."
    )
    assert "Only 1 of 3" in report.diagnosis
    report = read("[c10d] The client socket has failed to connect to [node-a]:29500 (errno: 111 - Connection refused).")
    assert "node-a:29500" in report.diagnosis


def test_a_child_that_failed_by_itself_is_named() -> None:
    report = read(
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
        "Root Cause (first observed failure):",
        "[0]:",
        "  rank      : 5 (local_rank: 1)",
        "  exitcode  : 1 (pid: 13650)",
    )
    assert report.warnings == ("child_failed",)
    assert "rank 5 failed with exit code 1" in report.diagnosis


def test_a_topology_matrix_is_named_and_a_strange_text_too() -> None:
    report = read("\tGPU0\tGPU1\tCPU Affinity", "GPU0\t X \tPHB\t0-31", "GPU1\tPHB\t X \t0-31")
    assert (report.kind, "labtui topo" in report.diagnosis) == ("topo", True)
    report = read("step 1 loss 2.5", "step 2 loss 2.4")
    assert (report.kind, report.warnings) == (None, ())
    assert "2 lines" in report.diagnosis
