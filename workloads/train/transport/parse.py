"""From the lines of one log to records. It reads forwards once and keeps only what proves something.

Which communicator a line belongs to, NCCL does not say: `Using network` stands before `Init START` of the same thread, and since NCCL
2.22 the channels are made by the first collective, after `Init COMPLETE` and in another thread (NCCL's src/init.cc, src/transport/).
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from .findings import NOTABLE
from .forms import (
    CHANNEL,
    CHECKING,
    CHILD,
    COMM_ID,
    ENVIRONMENT,
    INIT,
    INTERFACE,
    NETWORK,
    NODES,
    OLD_NONE,
    PROVIDER,
    READY,
    VERSIONS,
    WORTH,
)
from .lines import Written, read
from .records import ChannelUse, Communicator, Line, Network, Process, Provider, Records, fits, pair

_KEPT = 20
"""Warnings, damaged and folded lines kept of a log; the rest is counted."""


@dataclass(slots=True)
class _Thread:
    """What a thread does: it makes a communicator, or channels of one that is made already."""

    making: Communicator | None = None
    waiting: Communicator | None = None
    """Evidence whose communicator is not known yet."""


class Parser:
    """Reads one log, line by line; `file` is its name in proofs."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._threads: dict[tuple[tuple[str, int, str], int], _Thread] = {}
        self._records = Records()
        self._number = 0
        self._starts = False
        """Whether this NCCL says when it begins to make a communicator; before 2.18 it said only when it was done."""

    @property
    def records(self) -> Records:
        """Return what was read so far; more may follow."""
        for (key, _), thread in self._threads.items():
            self._settle(self._records.processes[key], thread)
        return self._records

    def finish(self) -> Records:
        """Return what was read, when no line follows: what is still without a communicator stays so."""
        for (key, _), thread in self._threads.items():
            self._settle(self._records.processes[key], thread, at_end=True)
        for process in self._records.processes.values():
            pair(process)
        return self._records

    def feed(self, lines: Iterable[str]) -> None:
        """Read further lines."""
        worth, number = WORTH.search, self._number
        for line in lines:
            number += 1
            if "NCCL" in line and worth(line):
                self._line(line, number)
            elif CHECKING in line and '"event": "transport"' in line:
                self._begin_again(number)
            elif "rdma-read" in line and len(self._records.remarks) < _KEPT:
                # libfabric's own words, which nobody signs.
                self._records.remarks.append(Line(line.strip(), self._file, number))
        self._number = self._records.num_lines = number

    def _begin_again(self, number: int) -> None:
        if self._records.processes:
            earlier = f"{self._file}:1-{number - 1}: an earlier try"
            self._threads.clear()
            self._records = Records(set_aside=[earlier])

    def _line(self, line: str, number: int) -> None:
        records, written = self._records, read(line)
        if written is None:
            # At level VERSION there is no prefix; only the first rank prints it.
            if (found := VERSIONS["nccl"].search(line)) is not None:
                records.num_nccl_lines += 1
                records.versions.setdefault("nccl", found[1])
            return
        records.num_nccl_lines += 1
        if written.damaged:
            records.num_damaged += 1
            if len(records.damaged) < _KEPT:
                records.damaged.append(self._at(written, number))
            return
        key = (written.host, written.pid, written.ip)
        process = records.processes.get(key)
        if process is None:
            process = records.processes[key] = Process(host=written.host, pid=written.pid, ip=written.ip)
        thread = self._threads.get((key, written.thread))
        if thread is None:
            thread = self._threads[key, written.thread] = _Thread()
        if self._channel(thread, written, number):
            proves = True
        else:
            proves = self._of_communicator(process, thread, written, number) or self._of_process(
                process, written, number
            )
        if written.repeated > 1 and proves:
            records.num_folded += written.repeated - 1
            if len(records.folded) < _KEPT:
                records.folded.append(self._at(written, number))

    def _at(self, written: Written, number: int) -> Line:
        return Line(written.message, self._file, number)

    def _channel(self, thread: _Thread, written: Written, number: int) -> bool:
        found = CHANNEL.match(written.message)
        if found is None:
            return False
        source, target, direction, network, device, rest, local = found.groups()
        if thread.making is not None:
            communicator = thread.making
        elif thread.waiting is None:
            communicator = thread.waiting = Communicator()
        else:
            communicator = thread.waiting
        # A rank writes of what it receives over the network, and of what it sends otherwise.
        mine, peer = (int(target), int(source)) if direction == "receive" else (int(source), int(target))
        if communicator.rank is None:
            communicator.rank = mine
        communicator.peers.add(peer)
        kind = f"NET/{network.removeprefix('AWS ')}" if network else local
        use = communicator.channels.get(kind)
        if use is None:
            use = communicator.channels[kind] = ChannelUse(self._at(written, number))
        use.count += 1
        if network:
            use.devices.add(int(device))
            use.gpu_direct = use.gpu_direct or "GDRDMA" in rest
        return True

    def _of_communicator(self, process: Process, thread: _Thread, written: Written, number: int) -> bool:
        message = written.message
        if found := NETWORK.match(message):
            network = Network(found[1] or found[2], self._at(written, number))
            if thread.waiting is not None and thread.waiting.network is not None:
                if thread.waiting.network.name == network.name and found[1]:
                    return True  # `Using network` says again what `Assigned NET plugin` said
                self._settle(process, thread, at_end=True)
            if thread.making is not None and thread.making.network is None:
                thread.making.network = network
            else:
                self._settle(process, thread)
                thread.waiting = thread.waiting or Communicator()
                thread.waiting.network = network
            return True
        if found := INIT.search(message):
            self._init(process, thread, found, self._at(written, number))
        elif found := NODES.search(message):
            for one in reversed(process.communicators):
                if (one.pointer, one.rank, one.num_ranks) == (found[1], int(found[2]), int(found[3])):
                    one.num_nodes, one.local_ranks = int(found[4]), int(found[5])
                    break
        elif message.startswith("Connected all") and self._starts:
            self._settle(process, thread)
        else:
            return False
        return False

    def _init(self, process: Process, thread: _Thread, found: re.Match[str], line: Line) -> None:
        pointer, rank, num_ranks, device, rest, what = found.groups()
        starts = what.upper() == "START"
        self._starts = self._starts or starts
        child, named = CHILD.search(rest), COMM_ID.search(rest)
        made = Communicator(
            pointer=pointer,
            rank=int(rank),
            num_ranks=int(num_ranks),
            device=int(device),
            comm_id=named[1] if named else None,
            parent=child[1] if child else None,
            child=f"{child[2]}/{child[3]}" if child else None,
            started=line,
        )
        known = thread.making
        if starts or known is None or known.pointer != pointer:
            waiting = thread.waiting
            if starts and waiting is not None and waiting.channels:
                # Channels before a beginning are of the communicator before; only the network is of this one.
                network, waiting.network = waiting.network, None
                self._settle(process, thread)
                waiting = Communicator(network=network)
            same = [one for one in process.communicators if one.pointer == pointer and not one.complete]
            if starts or not same:
                same = [made]
                process.communicators.append(made)
            known = same[-1]
            if waiting is not None:
                known.absorb(waiting)
                thread.waiting = None
        known.complete = not starts
        thread.making = known if starts else None

    def _settle(self, process: Process, thread: _Thread, *, at_end: bool = False) -> None:
        """Give channels that a thread made to the communicator that they fit: the first one made that has none yet."""
        waiting = thread.waiting
        if waiting is None or not (waiting.channels or at_end):
            return
        fitting = [one for one in process.communicators if fits(one, waiting)] if waiting.network is None else []
        without = [one for one in fitting if not one.channels]
        if without or fitting:
            (without or fitting[-1:])[0].absorb(waiting)
        elif at_end and not waiting.channels and not self._starts and process.communicators:
            # Old: one network for the process, said once, by the thread that loaded it.
            process.initialized = waiting.network
        elif at_end or waiting.network is not None:
            process.loose.append(waiting)
        else:
            return
        thread.waiting = None

    def _of_process(self, process: Process, written: Written, number: int) -> bool:
        message = written.message
        if (written.warning or NOTABLE.search(message)) and len(process.warnings) < _KEPT:
            process.warnings.append(self._at(written, number))
        if found := PROVIDER.search(message):
            nics = int(found[3]) if found[3] else None
            process.providers.append(Provider(found[1].lower(), found[2], nics, self._at(written, number)))
            return True
        if found := READY.match(message):
            if found[2]:
                process.interfaces += [one for one in INTERFACE.findall(message) if one not in process.interfaces]
            # A later one wins: the sockets say `Using` also where they are only tried.
            if found[1] or process.initialized is None:
                process.initialized = Network(found[1] or found[2], self._at(written, number))
        elif found := ENVIRONMENT.search(message):
            process.environment.setdefault(found[1], (found[2], self._at(written, number)))
        elif OLD_NONE.search(message):
            process.environment.setdefault("NCCL_NET_PLUGIN", ("none", self._at(written, number)))
        for name, form in VERSIONS.items():
            if found := form.search(message):
                process.versions.setdefault(name, found[1])
        return False
