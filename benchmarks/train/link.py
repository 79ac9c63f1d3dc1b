"""Let one host be several nodes: NCCL is told another host for each, sends between them over sockets, and no faster than asked.

NCCL_HOSTID is what NCCL tells hosts apart by; ranks of one still speak over NVLink or shared memory. The rate is kept by `shaper.c`, which
needs a compiler and no privileges; loopback itself carries 60 to 70 Gb/s.
"""

import shutil
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).with_name("shaper.c")
# Multicast over NVLink can put the GPUs of a shared host out of service.
ALWAYS = {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "NVSHMEM_DISABLE_NVLS": "1"}
SOCKETS = {
    "NCCL_NET": "Socket",
    "NCCL_SOCKET_IFNAME": "lo",
    "NCCL_IB_DISABLE": "1",
    # What NCCL itself takes on AWS.
    "NCCL_SOCKET_NTHREADS": "2",
    "NCCL_NSOCKS_PERTHREAD": "8",
}


def host_id(local_rank: int, world_size: int, nodes: int) -> str:
    """Return the host that a rank pretends to be on; neighbours share one."""
    return f"node-{local_rank // (world_size // nodes)}"


def compiled_shaper(folder: Path) -> Path | None:
    """Return the library, compiled into `folder`; None, with the reason on standard error, where that cannot be."""
    library = folder / "shaper.so"
    if library.exists():
        return library
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        print("link: no gcc here: links are not shaped, trust the measured rate", file=sys.stderr, flush=True)
        return None
    command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = " ".join(done.stderr.split())[-300:]
        print(f"link: {compiler} failed, links are not shaped: {said}", file=sys.stderr, flush=True)
        return None
    return library


def environment(
    nodes: int, ranks_per_node: int, gbps: float | None, library: Path | None, shared: Path
) -> dict[str, str]:
    """Return the environment variables of ranks on so many pretended nodes; `shared` is a file of this run alone."""
    if nodes == 1:
        return dict(ALWAYS)
    found = ALWAYS | SOCKETS
    if gbps is not None and library is not None:
        found |= {
            "LD_PRELOAD": str(library),
            "SHAPER_FILE": str(shared),
            "SHAPER_GBPS": f"{gbps:g}",
            "SHAPER_RANKS_PER_NODE": str(ranks_per_node),
        }
    return found
