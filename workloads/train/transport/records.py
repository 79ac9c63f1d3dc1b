"""What a log says, by process and communicator; no judgement yet."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Line:
    """A line that proves something: NCCL's words, and where they stand."""

    text: str
    file: str
    number: int

    def __str__(self) -> str:
        return f"{self.file}:{self.number}: {self.text}"


@dataclass(slots=True)
class ChannelUse:
    """The channels of one kind that a rank has in a communicator."""

    first: Line
    count: int = 0
    devices: set[int] = field(default_factory=set[int])
    gpu_direct: bool = False


@dataclass(frozen=True, slots=True)
class Network:
    """The network that NCCL gave to a communicator: Libfabric, Socket, IB; without "AWS " in front, which older plugins have."""

    name: str
    line: Line


@dataclass(frozen=True, slots=True)
class Provider:
    """The libfabric provider that aws-ofi-nccl selected in a process."""

    name: str
    fabric: str | None
    num_nics: int | None
    line: Line


@dataclass(slots=True, kw_only=True)
class Communicator:
    """One rank's view of one communicator. What its lines did not say is None."""

    pointer: str | None = None
    rank: int | None = None
    num_ranks: int | None = None
    comm_id: str | None = None
    parent: str | None = None
    child: str | None = None
    """Which child of its parent: count and colour, the same on all its ranks."""
    device: int | None = None
    num_nodes: int | None = None
    local_ranks: int | None = None
    network: Network | None = None
    channels: dict[str, ChannelUse] = field(default_factory=dict[str, ChannelUse])
    """By kind: NET/Libfabric, NET/Socket, P2P, SHM ..."""
    peers: set[int] = field(default_factory=set[int])
    complete: bool = False
    started: Line | None = None

    @property
    def signature(self) -> tuple[object, ...]:
        """What tells it from the other communicators of its process; a pointer alone is used again."""
        return (self.pointer, self.rank, self.num_ranks, self.comm_id, self.parent, self.child)

    def absorb(self, other: "Communicator") -> None:
        """Take what another log, or an earlier thread, says of the same communicator."""
        self.network = self.network or other.network
        self.rank = other.rank if self.rank is None else self.rank
        self.num_nodes = self.num_nodes or other.num_nodes
        self.local_ranks = self.local_ranks or other.local_ranks
        self.started = self.started or other.started
        self.complete = self.complete or other.complete
        self.peers |= other.peers
        for kind, use in other.channels.items():
            mine = self.channels.setdefault(kind, ChannelUse(use.first))
            mine.count = max(mine.count, use.count)
            mine.devices |= use.devices
            mine.gpu_direct = mine.gpu_direct or use.gpu_direct


@dataclass(slots=True, kw_only=True)
class Process:
    """One process, which is one rank in training."""

    host: str
    pid: int
    ip: str = ""
    """As Ray's prefix names its node; "" where no line had it."""
    communicators: list[Communicator] = field(default_factory=list[Communicator])
    loose: list[Communicator] = field(default_factory=list[Communicator])
    """What belongs to no communicator whose beginning was seen: a log cut short, or filtered."""
    providers: list[Provider] = field(default_factory=list[Provider])
    initialized: Network | None = None
    """The network plugin that NCCL made ready, where no communicator names its network."""
    environment: dict[str, tuple[str, Line]] = field(default_factory=dict[str, tuple[str, Line]])
    versions: dict[str, str] = field(default_factory=dict[str, str])
    interfaces: list[str] = field(default_factory=list[str])
    """Those of NCCL's sockets."""
    warnings: list[Line] = field(default_factory=list[Line])

    @property
    def where(self) -> str:
        """Name it for people."""
        return f"pid {self.pid} on {self.host}" + (f" ({self.ip})" if self.ip else "")

    def absorb(self, other: "Process") -> None:
        """Take what another log says of the same process."""
        self.ip = self.ip or other.ip
        for communicator in other.communicators:
            _absorb(self.communicators, communicator)
        self.loose += other.loose
        self.providers += other.providers
        self.initialized = self.initialized or other.initialized
        self.environment = other.environment | self.environment
        self.versions = other.versions | self.versions
        self.interfaces += [name for name in other.interfaces if name not in self.interfaces]
        self.warnings += other.warnings


@dataclass(slots=True, kw_only=True)
class Records:
    """What one log, or all of them, say."""

    processes: dict[tuple[str, int, str], Process] = field(default_factory=dict[tuple[str, int, str], Process])
    versions: dict[str, str] = field(default_factory=dict[str, str])
    """Versions that no process signed: NCCL prints its own without a prefix."""
    remarks: list[Line] = field(default_factory=list[Line])
    """What libraries below NCCL say; no process signed it either."""
    num_lines: int = 0
    num_nccl_lines: int = 0
    damaged: list[Line] = field(default_factory=list[Line])
    """Lines into which another process wrote: evidence of nobody."""
    num_damaged: int = 0
    folded: list[Line] = field(default_factory=list[Line])
    """Proving lines that Ray's driver printed once for several processes."""
    num_folded: int = 0
    """How many lines of other processes stand behind them."""
    set_aside: list[str] = field(default_factory=list[str])
    """What was left out because it is of an earlier try."""


def merge(parts: list[Records]) -> Records:
    """Return what several logs say together. A process that two of them name is one."""
    whole = Records()
    for part in parts:
        whole.versions = part.versions | whole.versions
        whole.remarks += part.remarks
        whole.num_lines += part.num_lines
        whole.num_nccl_lines += part.num_nccl_lines
        whole.damaged += part.damaged
        whole.num_damaged += part.num_damaged
        whole.folded += part.folded
        whole.num_folded += part.num_folded
        whole.set_aside += part.set_aside
        for key, process in part.processes.items():
            if key in whole.processes:
                whole.processes[key].absorb(process)
            else:
                whole.processes[key] = process
    _join_unnamed(whole)
    return whole


def _join_unnamed(whole: Records) -> None:
    """Join what a process wrote to its own file with what Ray's driver printed of it; only the latter names the node's address."""
    addresses: dict[tuple[str, int], list[str]] = {}
    for host, pid, ip in whole.processes:
        addresses.setdefault((host, pid), []).append(ip)
    for (host, pid), ips in addresses.items():
        if len(ips) == 2 and "" in ips:
            named = whole.processes[host, pid, next(ip for ip in ips if ip)]
            named.absorb(whole.processes.pop((host, pid, "")))


def _absorb(known: list[Communicator], other: Communicator) -> None:
    for one in known:
        if one.signature == other.signature:
            one.absorb(other)
            return
    known.append(other)


def fits(made: Communicator, channels: Communicator) -> bool:
    """Tell whether channels may be those of a communicator: by rank, number of ranks, network and nodes."""
    if made.rank != channels.rank or made.num_ranks is None or max(channels.peers, default=0) >= made.num_ranks:
        return False
    networks = {kind.removeprefix("NET/") for kind in channels.channels if kind.startswith("NET/")}
    if (networks and made.num_nodes == 1) or (not networks and made.local_ranks == 1):
        return False
    return not networks or made.network is None or made.network.name in networks


def pair(process: Process) -> None:
    """Join channels and the network that name each other, where the lines between them were filtered out."""
    named = [one for one in process.loose if one.network is not None and not one.channels]
    for one in [one for one in process.loose if one.network is None]:
        networks = {kind.removeprefix("NET/") for kind in one.channels if kind.startswith("NET/")}
        for network in named:
            if network.network is not None and (not networks or network.network.name in networks):
                network.absorb(one)
                named.remove(network)
                process.loose.remove(one)
                break
