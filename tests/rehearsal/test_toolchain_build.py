"""Builds of Go tools into the cache, with small modules of our own and a module proxy made of files."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import versions
from rehearsal.errors import RehearsalError
from rehearsal.toolchain.build import build_tool, cached_tool
from rehearsal.toolchain.cache import CACHE_VARIABLE
from rehearsal.toolchain.crds import kuberay_crds
from rehearsal.toolchain.go import find_go
from rehearsal.toolchain.progress import Progress
from rehearsal.toolchain.tools import KUBERAY_MODULE, Into, ModuleFile, Tool

pytestmark = pytest.mark.skipif(shutil.which("go") is None, reason="builds with Go")

HELLO = """package main
import "fmt"
var greeting = "unset"
func main() { fmt.Println(greeting) }
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A module proxy in a directory, in place of the public one and of its checksum database."""
    go = shutil.which("go") or "go"
    directory = tmp_path / "proxy"
    directory.mkdir()
    monkeypatch.setenv("GOPROXY", directory.as_uri())
    monkeypatch.setenv("GOSUMDB", "off")
    monkeypatch.setenv("GOMODCACHE", str(tmp_path / "modules"))
    yield directory
    subprocess.run([go, "clean", "-modcache"], cwd=tmp_path, check=True)


def publish(proxy: Path, module: str, version: str, files: dict[str, str]) -> None:
    directory = proxy / module / "@v"
    directory.mkdir(parents=True)
    files = {"go.mod": f"module {module}\n\ngo 1.21\n", **files}
    (directory / "list").write_text(f"{version}\n")
    (directory / f"{version}.info").write_text(json.dumps({"Version": version}))
    (directory / f"{version}.mod").write_text(files["go.mod"])
    with zipfile.ZipFile(directory / f"{version}.zip", "w") as archive:
        for name, text in files.items():
            archive.writestr(f"{module}@{version}/{name}", text)


def hello(directory: Path, code: str = HELLO, **changes: object) -> Tool:
    directory.mkdir(exist_ok=True)
    (directory / "go.mod").write_text("module example.test/hello\n\ngo 1.21\n")
    (directory / "main.go").write_text(code)
    settings: dict[str, object] = {
        "name": "hello",
        "version": "1.2.3",
        "sources": directory,
        "binaries": {"hello": "."},
        "version_symbol": "main.greeting",
        "linked_version": "v1.2.3",
        "cost": "a second",
        **changes,
    }
    return Tool(**settings)  # pyright: ignore[reportArgumentType]


def build(tool: Tool) -> tuple[Path, str]:
    told = io.StringIO()
    with Progress(1, stream=told) as progress:
        return build_tool(tool, progress), told.getvalue()


def entries(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.iterdir() if not path.name.endswith(".lock") and path.name != "log")


def test_a_tool_is_built_once_and_found_afterwards(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = hello(tmp_path / "hello")
    assert cached_tool(tool) is None
    entry, told = build(tool)
    assert subprocess.run([entry / "hello"], capture_output=True, text=True, check=True).stdout == "v1.2.3\n"
    assert told.startswith("[1/1] build hello 1.2.3 (a second)\n")
    assert "done in" in told
    assert sorted(path.name for path in entry.iterdir()) == ["hello"], "the sources stay behind"

    # Another checkout with the same sources, on a machine whose Go is gone.
    copy = hello(tmp_path / "other checkout")
    monkeypatch.setenv("PATH", "")
    assert build(copy) == (entry, "")
    assert cached_tool(copy) == entry


def test_changed_sources_are_another_entry(tmp_path: Path, cache: Path) -> None:
    first, _ = build(hello(tmp_path / "hello"))
    second, _ = build(hello(tmp_path / "hello", HELLO.replace("unset", "other")))
    assert first != second
    assert entries(cache) == sorted([first.name, second.name])


def test_files_that_go_does_not_read_change_nothing(tmp_path: Path, cache: Path) -> None:
    tool = hello(tmp_path / "hello")
    (tool.sources / ".DS_Store").write_bytes(b"\0")
    (tool.sources / "._main.go").write_bytes(b"\0")
    (tool.sources / "go").mkdir()
    entry, _ = build(tool)
    # Of go.mod, main.go and the row of the table: whoever has built them keeps the build.
    assert entry.name.startswith("hello-1.2.3-5fb561d91d23-")


@pytest.mark.parametrize("taken", ["hello", "go.mod"])
def test_an_entry_with_a_file_gone_is_built_again(tmp_path: Path, cache: Path, proxy: Path, taken: str) -> None:
    publish(proxy, "example.test/schemas", "v1.0.0", {"schemas.go": "package schemas\n"})
    tool = hello(
        tmp_path / "hello",
        HELLO.replace('import "fmt"', 'import ("fmt"; _ "example.test/schemas")'),
        files=(ModuleFile(module="example.test/schemas", path="go.mod", into=Into.ENTRY),),
    )
    subprocess.run(["go", "mod", "tidy"], cwd=tool.sources, env={**os.environ, "GOFLAGS": ""}, check=True)
    entry, _ = build(tool)
    (entry / taken).unlink()
    assert cached_tool(tool) is None
    assert build(tool)[0] == entry
    assert sorted(path.name for path in entry.iterdir()) == ["go.mod", "hello"]


def test_a_relative_home_is_refused_before_go_writes_there(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = hello(tmp_path / "hello")
    monkeypatch.setenv("HOME", "go")
    with pytest.raises(RehearsalError, match=r"^HOME: found 'go'; allowed: an absolute path; set it to one"):
        build(tool)
    with pytest.raises(RehearsalError, match=r"^HOME: found 'go'"):
        find_go(tool.sources)
    assert sorted(path.name for path in tool.sources.iterdir()) == ["go.mod", "main.go"]


def test_go_builds_without_a_home(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "GOCACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    entry, _ = build(hello(tmp_path / "hello"))
    assert (entry / "hello").is_file()


def test_a_failed_build_says_what_the_compiler_said_and_leaves_nothing(tmp_path: Path, cache: Path) -> None:
    tool = hello(tmp_path / "hello", "package main\nfunc main() { undefined() }\n")
    with pytest.raises(RehearsalError) as caught:
        build(tool)
    text = str(caught.value)
    assert "\n" not in text
    assert "undefined: undefined" in text
    log = Path(text.rpartition("full log: ")[2])
    assert "undefined: undefined" in log.read_text()
    assert entries(cache) == []
    assert caught.value.exit_code == 2


def test_settings_of_another_go_project_change_nothing(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOFLAGS", "-mod=vendor")
    monkeypatch.setenv("GOOS", "plan9")
    (tmp_path / "go.work").write_text("go 1.21\n")
    entry, _ = build(hello(tmp_path / "hello"))
    assert subprocess.run([entry / "hello"], capture_output=True, text=True, check=True).stdout == "v1.2.3\n"


def test_no_go_is_one_line_with_the_way_out_and_makes_nothing(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = hello(tmp_path / "hello")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(
        RehearsalError, match=r"hello 1\.2\.3: no `pulumi` and no `go` on PATH; install Pulumi .* or Go"
    ):
        build(tool)
    assert not cache.exists()


def test_files_of_modules_travel_with_the_build(tmp_path: Path, cache: Path, proxy: Path) -> None:
    publish(
        proxy,
        "example.test/schemas",
        "v1.0.0",
        {"schemas.go": "package schemas\n", "a/schema.json": '{"name": "x"}', "bin/runner": "#!/bin/sh\necho run\n"},
    )
    code = """package main
import (_ "embed"; "fmt"; _ "example.test/schemas")
//go:embed schema.json
var schema string
func main() { fmt.Print(schema) }
"""
    tool = hello(
        tmp_path / "hello",
        code,
        version_symbol=None,
        files=(
            ModuleFile(module="example.test/schemas", path="a/schema.json", into=Into.SOURCES, version="4.5.6"),
            ModuleFile(module="example.test/schemas", path="bin/runner", into=Into.ENTRY),
        ),
    )
    # Embedding needs the file while the module is tidied, too.
    (tool.sources / "schema.json").write_text("{}")
    subprocess.run(["go", "mod", "tidy"], cwd=tool.sources, env={**os.environ, "GOFLAGS": ""}, check=True)
    (tool.sources / "schema.json").unlink()

    entry, _ = build(tool)
    assert subprocess.run([entry / "hello"], capture_output=True, text=True, check=True).stdout == (
        '{"name":"x","version":"4.5.6"}'
    )
    assert subprocess.run([entry / "runner"], capture_output=True, text=True, check=True).stdout == "run\n"


def test_kuberay_definitions_are_taken_from_its_module(
    tmp_path: Path, cache: Path, proxy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    definition = "kind: CustomResourceDefinition\n"
    publish(
        proxy,
        KUBERAY_MODULE,
        f"v{versions.KUBERAY}",
        {"main.go": "package main\n", "config/crd/bases/ray.io_rayclusters.yaml": definition, "config/other.yaml": ""},
    )
    directory = kuberay_crds()
    assert {path.name: path.read_text() for path in directory.iterdir()} == {"ray.io_rayclusters.yaml": definition}
    monkeypatch.setenv("PATH", "")
    assert kuberay_crds() == directory, "the second time needs no Go"


def test_a_module_that_cannot_be_had_is_one_line(cache: Path, proxy: Path) -> None:
    with pytest.raises(RehearsalError, match=r"Go module .*ray-operator@v1\.6\.1: not downloaded: .*; check GOPROXY"):
        kuberay_crds()
    assert entries(cache) == []
