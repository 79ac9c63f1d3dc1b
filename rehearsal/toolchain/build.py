"""Build a tool of the table into its cache entry."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path

from rehearsal.errors import RehearsalError
from rehearsal.toolchain import go as golang
from rehearsal.toolchain.cache import cache_root, ensure_entry
from rehearsal.toolchain.progress import Progress, Step
from rehearsal.toolchain.tools import Into, ModuleFile, Tool


def cached_tool(tool: Tool) -> Path | None:
    """Return the entry of `tool` built from the present sources for this platform, or None.

    An entry's name holds tool, version, hash of the sources, platform and Go version. The last is for the person who
    looks: any Go builds the same program from the same sources, so a newer Go builds nothing anew, and a machine where
    Go is gone still finds what it has built. Asks no compiler, since every preview comes by here. An entry out of which
    files were taken is none.
    """
    matches = sorted(path for path in cache_root().glob(f"{_key(tool)}-go*") if _is_whole(path, tool))
    return matches[-1] if matches else None


def build_tool(tool: Tool, progress: Progress) -> Path:
    """Return the cache entry of `tool` with its binaries, built now if it is not there.

    Raises RehearsalError without Go, when a module cannot be downloaded, when the compiler fails and when the disk is full.
    """
    cached = cached_tool(tool)
    if cached is not None:
        return cached
    go = golang.find_go(tool.sources)
    if go is None:
        raise RehearsalError(
            f"{tool.name} {tool.version}: no `{tool.command}` and no `go` on PATH; "
            f"install {tool.official} or Go 1.26 or newer (https://go.dev/dl/), "
            "then run the same command again"
        )
    key = f"{_key(tool)}-{go.version}"
    step = progress.step(f"build {tool.name} {tool.version} ({tool.cost})")
    entry = ensure_entry(
        key,
        lambda work: _fill(tool, go, work, cache_root() / "log" / f"{key}.log", step),
        whole=lambda path: _is_whole(path, tool),
        on_wait=lambda: step.note("another run is building it, waiting for that one"),
    )
    step.done()
    return entry


def _fill(tool: Tool, go: golang.Go, work: Path, log: Path, step: Step) -> None:
    sources = work / ".sources"
    sources.mkdir()
    for path in _source_files(tool):
        shutil.copyfile(path, sources / path.name)
    for file in tool.files:
        _take(file, go, sources, sources if file.into is Into.SOURCES else work)
    link_flags = "-s -w"
    if tool.version_symbol is not None:
        link_flags += f" -X {tool.version_symbol}={tool.linked_version}"
    link_flags += "".join(f" -X {symbol}={value}" for symbol, value in tool.link.items())
    for binary, package in tool.binaries.items():
        step.expect(golang.count_packages(go, package, directory=sources))
        golang.build(
            go,
            package,
            work / binary,
            link_flags=link_flags,
            directory=sources,
            log=log,
            on_package=step.advance,
        )
    shutil.rmtree(sources)


def _is_whole(entry: Path, tool: Tool) -> bool:
    programs = all(os.access(entry / name, os.X_OK) and (entry / name).is_file() for name in tool.binaries)
    return programs and all((entry / Path(file.path).name).is_file() for file in tool.files if file.into is Into.ENTRY)


def _source_files(tool: Tool) -> list[Path]:
    """Return what Go builds from, sorted; whatever else a system or an editor drops there changes no build."""
    return sorted(
        path
        for path in tool.sources.iterdir()
        if (path.name in ("go.mod", "go.sum") or (path.suffix == ".go" and not path.name.startswith(".")))
        and path.is_file()
    )


def _take(file: ModuleFile, go: golang.Go, sources: Path, target: Path) -> None:
    origin = golang.module_directory(go, file.module, directory=sources) / file.path
    copy = target / origin.name
    if file.version is None:
        shutil.copyfile(origin, copy)
        copy.chmod(0o755 if file.into is Into.ENTRY else 0o644)
        return
    document = json.loads(origin.read_text(encoding="utf-8"))
    document["version"] = file.version
    copy.write_text(json.dumps(document, separators=(",", ":")), encoding="utf-8")


def _key(tool: Tool) -> str:
    digest = hashlib.sha256(repr((tool.binaries, tool.version_symbol, tool.linked_version, tool.files)).encode())
    if tool.link:
        digest.update(repr(sorted(tool.link.items())).encode())
    for path in _source_files(tool):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return f"{tool.name}-{tool.version}-{digest.hexdigest()[:12]}-{golang.platform_name()}"
