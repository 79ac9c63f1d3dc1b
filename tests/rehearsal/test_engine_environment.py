"""What the engine is given: stand-ins, a passphrase, and nothing of the user's accounts."""

from __future__ import annotations

import importlib.metadata
import subprocess
from pathlib import Path

import pytest

from rehearsal.engine.environment import engine_environment
from rehearsal.engine.plugins import install_plugins
from rehearsal.engine.state import STATE_VARIABLE, State, open_state
from rehearsal.errors import RehearsalError
from rehearsal.language_host import RUNNER_VARIABLE
from rehearsal.toolchain.pulumi import Toolchain

BUILT = Toolchain(
    Path("/cache/p/pulumi"), Path("/cache/k/pulumi-resource-kubernetes"), program_runner=Path("/cache/p/x")
)
OFFICIAL = Toolchain(Path("/usr/bin/pulumi"), Path("/home/k"), language_host=Path("/usr/lib/pulumi-language-python"))


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> State:
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "state"))
    return open_state(tmp_path / "checkout")


def test_accounts_and_backends_of_the_user_are_left_out(state: State) -> None:
    user = {
        "PATH": "/usr/bin",
        "AWS_PROFILE": "prod",
        "AWS_SESSION_TOKEN": "t",
        "AWS_ACCESS_KEY_ID": "AKIA",
        "PULUMI_ACCESS_TOKEN": "pul-1",
        "PULUMI_BACKEND_URL": "s3://prod",
        "KUBECONFIG": "/home/ann/.kube/config",
        "EFA_RAY_TRAIN_AWS_ENDPOINT": "http://127.0.0.1:5000",
    }
    found = engine_environment(user, state, BUILT)
    assert "AWS_PROFILE" not in found
    assert "AWS_SESSION_TOKEN" not in found
    assert "PULUMI_ACCESS_TOKEN" not in found
    assert found["AWS_ACCESS_KEY_ID"] == "rehearsal"
    assert found["PULUMI_BACKEND_URL"] == f"file://{state.backend}"
    assert found["KUBECONFIG"] == "/dev/null"
    assert found["EFA_RAY_TRAIN_AWS_ENDPOINT"] == "http://127.0.0.1:5000"
    assert found["PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION"] == "true"
    assert found[RUNNER_VARIABLE] == "/cache/p/x"
    assert RUNNER_VARIABLE not in engine_environment(user, state, OFFICIAL)


def test_a_passphrase_is_made_once_and_kept_private(state: State) -> None:
    first = engine_environment({}, state, BUILT)
    file = Path(first["PULUMI_CONFIG_PASSPHRASE_FILE"])
    made = file.read_text()
    assert len(made) > 30
    assert file.stat().st_mode & 0o077 == 0
    assert Path(engine_environment({}, state, BUILT)["PULUMI_CONFIG_PASSPHRASE_FILE"]).read_text() == made
    assert sorted(path.name for path in state.root.iterdir()) == [
        "backend",
        "checkout",
        "passphrase",
        "project",
        "pulumi",
    ]


@pytest.mark.parametrize("value", ["mine", ""])
def test_the_users_passphrase_is_taken_even_when_empty(state: State, value: str) -> None:
    found = engine_environment({"PULUMI_CONFIG_PASSPHRASE": value}, state, BUILT)
    assert found["PULUMI_CONFIG_PASSPHRASE"] == value
    assert "PULUMI_CONFIG_PASSPHRASE_FILE" not in found
    assert not state.passphrase.exists()


def test_a_passphrase_file_that_is_not_there_is_one_line(state: State, tmp_path: Path) -> None:
    with pytest.raises(
        RehearsalError, match=r"PULUMI_CONFIG_PASSPHRASE_FILE: '.*/absent' is not a file; name a readable"
    ):
        engine_environment({"PULUMI_CONFIG_PASSPHRASE_FILE": str(tmp_path / "absent")}, state, BUILT)


def plugin(state: State, kind: str, name: str, version: str) -> Path:
    return state.home / "plugins" / f"{kind}-{name}-{version}" / f"pulumi-{kind}-{name}"


def sdk_version(name: str) -> str:
    return f"v{importlib.metadata.version(f'pulumi-{name}')}"


def test_plugins_lie_where_the_engine_looks_at_the_versions_that_the_packages_want(state: State) -> None:
    install_plugins(state, BUILT)
    for name in ("aws", "eks"):
        script = plugin(state, "resource", name, sdk_version(name))
        assert script.stat().st_mode & 0o111
        assert "rehearsal.providers" in script.read_text()
    provider = plugin(state, "resource", "kubernetes", sdk_version("kubernetes"))
    assert provider.readlink() == BUILT.kubernetes_provider
    assert "rehearsal.language_host" in plugin(state, "language", "python", "v3.0.0").read_text()


def test_an_official_language_host_takes_the_place_of_ours_and_back(state: State) -> None:
    host = plugin(state, "language", "python", "v3.0.0")
    install_plugins(state, BUILT)
    install_plugins(state, OFFICIAL)
    assert host.readlink() == OFFICIAL.language_host
    install_plugins(state, BUILT)
    assert not host.is_symlink()


def test_a_stand_in_ends_with_its_engine(state: State) -> None:
    install_plugins(state, BUILT)
    command = [plugin(state, "resource", "aws", sdk_version("aws")), "127.0.0.1:1"]
    with subprocess.Popen(command, cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert int(process.stdout.readline()) > 0
        # The engine holds the other end of a plugin's input; a killed engine lets go of it.
        process.stdin.close()
        try:
            process.wait(15)
        finally:
            process.kill()


def test_a_launcher_runs_the_module_with_its_arguments(state: State) -> None:
    install_plugins(state, BUILT)
    host = plugin(state, "language", "python", "v3.0.0")
    answer = subprocess.run([host], cwd="/", env={}, capture_output=True, text=True, check=False)
    assert answer.returncode == 2
    assert "no engine address given" in answer.stderr
    answer = subprocess.run([host, "127.0.0.1:1"], cwd="/", env={}, capture_output=True, text=True, check=False)
    assert RUNNER_VARIABLE in answer.stderr
