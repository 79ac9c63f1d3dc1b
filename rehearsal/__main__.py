"""The command line of the rehearsal: `python -m rehearsal VERB`."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

from rehearsal.errors import RehearsalError
from rehearsal.toolchain.places import CACHE_VARIABLE, STATE_VARIABLE, check_places

# A verb imports its own modules when it runs: none waits for what another one needs.

_REPOSITORY = Path(__file__).resolve().parents[1]
_INTERRUPTED = 130


class _Arguments(argparse.Namespace):
    verb: Callable[[_Arguments], int]
    takes_extra: bool
    extra: Sequence[str]
    directory: Path
    stack: str
    json: bool
    policies: bool
    scale: int | None
    keep_world: bool
    names: Sequence[str]


def main(argv: Sequence[str] | None = None) -> int:
    """Run a verb and return the exit status: 0 good, 1 the check said no, 2 bad usage or input, 130 interrupted."""
    parser = _parser()
    arguments, extra = parser.parse_known_args(argv, namespace=_Arguments())
    if extra and not arguments.takes_extra:
        parser.error(f"unrecognized arguments: {' '.join(extra)}")
    arguments.extra = extra
    # An end that is asked for politely must clean up as Ctrl-C does.
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        _check(arguments)
        status = arguments.verb(arguments)
        # Here, and not when Python ends: a disk that is full then is told like any other.
        sys.stdout.flush()
        return status
    except OSError as problem:
        print(_told(problem), file=sys.stderr)
        _let_go_of_stdout()
        return 2
    except RehearsalError as problem:
        print(problem, file=sys.stderr)
        return problem.exit_code
    except KeyboardInterrupt:
        print("interrupted; nothing is left running", file=sys.stderr)
        return _INTERRUPTED


def _check(arguments: _Arguments) -> None:
    check_places(os.environ)
    if not arguments.directory.is_dir():
        raise RehearsalError(
            f"{arguments.directory}: no such directory; name that of a Pulumi project with --directory"
        )


def _told(problem: OSError) -> str:
    reason = problem.strerror or str(problem)
    if problem.filename is None:
        return f"output: {reason}; send it to a place that takes it, and make room where a disk is full"
    return (
        f"{problem.filename}: {reason}; make it writable and make room there, or set "
        f"{STATE_VARIABLE} (state) or {CACHE_VARIABLE} (built tools) to another directory"
    )


def _let_go_of_stdout() -> None:
    """Keep Python from writing once more at its end what could not be written."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m rehearsal", description=__doc__, allow_abbrev=False)
    verbs = parser.add_subparsers(required=True, metavar="VERB")

    def add(name: str, run: Callable[[_Arguments], int], about: str, *, extra: bool = False) -> argparse.ArgumentParser:
        verb = verbs.add_parser(name, help=about, description=about, allow_abbrev=False)
        verb.set_defaults(verb=run, takes_extra=extra)
        verb.add_argument("--json", action="store_true", help="print one JSON document on stdout and nothing else")
        verb.add_argument(
            "-C", "--directory", type=Path, default=_REPOSITORY, help="the Pulumi project (default: this checkout)"
        )
        return verb

    add(
        "bootstrap",
        _bootstrap,
        "get engine, Kubernetes provider, control plane, operator and Helm: installed ones, or builds in the cache",
    )
    preview = add(
        "preview",
        _preview,
        "preview a stack with the real engine; further arguments go to `pulumi preview`",
        extra=True,
    )
    preview.add_argument("--stack", default="rehearsal", help="the stack to preview (default: rehearsal)")
    preview.add_argument("--no-policies", dest="policies", action="store_false", help="leave the policy pack out")
    up = add(
        "up",
        _up,
        "bring a stack up on this machine with its training job, and leave it standing for a look; further arguments go to `pulumi up`",
        extra=True,
    )
    up.add_argument("--stack", default="rehearsal", help="the stack to rehearse (default: rehearsal)")
    up.add_argument(
        "--scale", type=_scale, default=None, metavar="N", help="GPU nodes (default: the stack's own number)"
    )
    up.add_argument("--no-policies", dest="policies", action="store_false", help="leave the policy pack out")
    start = add("start", _start, "start the local AWS and the local cluster of a stack, empty")
    start.add_argument("--stack", default="rehearsal", help="the stack to start them for (default: rehearsal)")
    start.add_argument("--scale", type=_scale, default=None, metavar="N", help="GPU nodes of a later `up`")
    down = add("down", _down, "take a rehearsal down and prove that nothing is left of it")
    down.add_argument("--stack", default="rehearsal", help="the stack that stands (default: rehearsal)")
    down.add_argument("--keep-world", action="store_true", help="leave the empty world standing for the next `up`")
    drills = add(
        "drills", _drills, "make faults that people met, and see that each ends with its message and a way out"
    )
    drills.add_argument("names", nargs="*", metavar="NAME", help="drills to hold (default: all)")
    add("clean", _clean, "remove the state of this checkout's rehearsals")
    add("doctor", _doctor, "say what a rehearsal needs and what of it is there")
    return parser


def _bootstrap(arguments: _Arguments) -> int:
    from rehearsal.cluster import find_programs
    from rehearsal.containers.operator_binary import find_operator
    from rehearsal.helm import find_helm
    from rehearsal.toolchain.pulumi import find_toolchain

    toolchain, cluster, operator, helm = find_toolchain(), find_programs(), find_operator(), find_helm()
    found = {
        "pulumi": str(toolchain.pulumi),
        "official": toolchain.official,
        "kubernetes_provider": str(toolchain.kubernetes_provider),
        "kube_apiserver": str(cluster.kube_apiserver),
        "etcd": str(cluster.etcd),
        "kwok": str(cluster.kwok),
        "kuberay_operator": str(operator),
        "helm": str(helm),
    }
    if arguments.json:
        print(json.dumps(found))
    else:
        origin = "installed" if toolchain.official else "built from its Go module"
        print(f"pulumi ({origin}): {toolchain.pulumi}\nkubernetes provider: {toolchain.kubernetes_provider}")
        print(
            f"kubernetes: {cluster.kube_apiserver.parent}\nkwok: {cluster.kwok}\nkuberay operator: {operator}\nhelm: {helm}"
        )
    return 0


def _preview(arguments: _Arguments) -> int:
    from rehearsal.engine.preview import preview

    return preview(
        arguments.directory.resolve(),
        arguments.stack,
        json_output=arguments.json,
        policies=arguments.policies,
        extra=arguments.extra,
    )


def _up(arguments: _Arguments) -> int:
    from rehearsal.lifecycle.rehearse import rehearse

    return rehearse(
        arguments.directory.resolve(),
        arguments.stack,
        scale=arguments.scale,
        policies=arguments.policies,
        json_output=arguments.json,
        extra=arguments.extra,
    )


def _start(arguments: _Arguments) -> int:
    from rehearsal.lifecycle.rehearse import start

    return start(arguments.directory.resolve(), arguments.stack, scale=arguments.scale, json_output=arguments.json)


def _down(arguments: _Arguments) -> int:
    from rehearsal.lifecycle.rehearse import take_all_down

    return take_all_down(
        arguments.directory.resolve(), arguments.stack, keep_world=arguments.keep_world, json_output=arguments.json
    )


def _drills(arguments: _Arguments) -> int:
    from rehearsal.drills.command import drill

    return drill(arguments.names, json_output=arguments.json)


def _scale(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"found {text}; allowed: a number of GPU nodes, 1 or more")
    return int(text)


def _clean(arguments: _Arguments) -> int:
    from rehearsal.engine.locks import find_locks
    from rehearsal.engine.state import find_state, is_there, remove_state
    from rehearsal.engine.usage import alone
    from rehearsal.world.record import is_kept, places

    state = find_state(arguments.directory)
    if is_kept(places(state)):
        raise RehearsalError("world: a rehearsal still stands in this state; take it down with `make rehearse-down`")
    for lock in find_locks(state):
        if not lock.stale:
            raise RehearsalError(
                f"stack {lock.path.parent.name}: locked by {lock.user}@{lock.host} (pid {lock.pid}); "
                f"wait for that run or end it; if there is none, delete {lock.path}"
            )
    removed = is_there(state)
    if removed:
        with alone(state):
            remove_state(state)
    if arguments.json:
        print(json.dumps({"state": str(state.root), "removed": removed}))
    else:
        print(f"removed {state.root}" if removed else f"nothing to remove at {state.root}")
    return 0


def _doctor(arguments: _Arguments) -> int:
    from rehearsal.engine.doctor import examine

    findings = examine(arguments.directory.resolve())
    if arguments.json:
        print(json.dumps([{"name": f.name, "found": f.found, "good": f.good, "fix": f.fix} for f in findings]))
    else:
        for finding in findings:
            print(
                f"{'ok ' if finding.good else 'NO '} {finding.name}: {finding.found}{finding.fix and f'; {finding.fix}'}"
            )
    return 0 if all(finding.good for finding in findings) else 1


if __name__ == "__main__":
    sys.exit(main())
