"""Stack settings: which there are, what the engine gets, what the project keeps."""

from __future__ import annotations

from pathlib import Path

import pytest

from rehearsal.engine.stacks import prepare_stack, stack_names
from rehearsal.engine.state import STATE_VARIABLE, State, open_state
from rehearsal.errors import RehearsalError

SALT = "encryptionsalt: v1:abc=:v1:def\n"
OPEN = {"PULUMI_CONFIG_PASSPHRASE": "x"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    directory = tmp_path / "checkout"
    directory.mkdir()
    (directory / "Pulumi.yaml").write_text("# shop\nname: shop # the name\nruntime: python\n")
    (directory / "Pulumi.dev.yaml").write_text("# kept\nconfig:\n  shop:size: 3\n")
    (directory / "Pulumi.us-west-2.yaml").write_text("config: {}\n")
    return directory


@pytest.fixture
def state(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> State:
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "state"))
    return open_state(project)


def write_secret_stack(project: Path, provider: str, value: str = "secure: v1:xyz") -> None:
    (project / "Pulumi.dev.yaml").write_text(
        f"secretsprovider: {provider}\nencryptedkey: AAAA\nconfig:\n  shop:key:\n    {value}\n"
    )


def test_stacks_are_the_settings_files(project: Path) -> None:
    assert stack_names(project) == ["dev", "us-west-2"]


def test_an_unknown_stack_is_told_with_the_known_ones(project: Path, state: State) -> None:
    with pytest.raises(RehearsalError) as caught:
        prepare_stack(project, "prod", state, {})
    assert str(caught.value) == (
        "stack prod: no Pulumi.prod.yaml; there are dev, us-west-2: choose one with STACK=NAME"
    )


@pytest.mark.parametrize("name", ["../dev", "", "dev/../dev"])
def test_a_name_that_is_no_stack_name_is_unknown_too(project: Path, state: State, name: str) -> None:
    with pytest.raises(RehearsalError, match="there are dev, us-west-2"):
        prepare_stack(project, name, state, {})


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"- a\n- b\n", "found a YAML list; allowed: a mapping"),
        (b"dev", "found a YAML str; allowed: a mapping"),
        (b"config: [\n", "not YAML: "),
        (b"config:\n  shop:name: caf\xe9\n", "found bytes that are not UTF-8 at offset 24; save it as UTF-8"),
    ],
)
@pytest.mark.parametrize("name", ["Pulumi.dev.yaml", "Pulumi.yaml"])
def test_a_file_that_holds_no_mapping_is_named(
    project: Path, state: State, name: str, content: bytes, line: str
) -> None:
    (project / name).write_bytes(content)
    with pytest.raises(RehearsalError) as caught:
        prepare_stack(project, "dev", state, {})
    assert str(caught.value).startswith(f"{project / name}: {line}")
    assert "\n" not in str(caught.value)


def test_a_directory_is_no_stack_file(project: Path, state: State) -> None:
    (project / "Pulumi.prod.yaml").mkdir()
    with pytest.raises(RehearsalError, match=r"stack prod: no Pulumi\.prod\.yaml; there are dev, us-west-2"):
        prepare_stack(project, "prod", state, {})


def test_the_engine_gets_a_copy_that_it_may_write_to(project: Path, state: State) -> None:
    before = (project / "Pulumi.dev.yaml").read_bytes()
    stack = prepare_stack(project, "dev", state, {})
    assert (stack.name, stack.project) == ("dev", "shop")
    assert stack.settings.read_bytes() == before
    # What the engine does when it makes the stack.
    stack.settings.write_text(f"config:\n  shop:size: 3\n{SALT}")
    (project / "Pulumi.dev.yaml").write_text("config:\n  shop:size: 4\n")
    assert prepare_stack(project, "dev", state, {}).settings.read_text() == f"config:\n  shop:size: 4\n{SALT}"
    assert (project / "Pulumi.dev.yaml").read_text() == "config:\n  shop:size: 4\n"
    assert sorted(path.name for path in state.project.iterdir()) == ["Pulumi.dev.yaml", "Pulumi.yaml"]


def test_a_stack_with_its_own_salt_needs_its_own_passphrase(project: Path, state: State) -> None:
    (project / "Pulumi.dev.yaml").write_text(f"{SALT}config: {{}}\n")
    with pytest.raises(
        RehearsalError, match=r"Pulumi.dev.yaml: .*encryptionsalt.*PULUMI_CONFIG_PASSPHRASE_FILE: export"
    ):
        prepare_stack(project, "dev", state, {})
    assert prepare_stack(project, "dev", state, OPEN).settings.read_text() == f"{SALT}config: {{}}\n"


def test_secrets_held_by_a_cloud_are_refused(project: Path, state: State) -> None:
    write_secret_stack(project, "awskms://alias/pulumi")
    with pytest.raises(RehearsalError, match=r"Pulumi\.dev\.yaml: its secrets are held by awskms://alias/pulumi"):
        prepare_stack(project, "dev", state, OPEN)


def test_a_cloud_key_without_secrets_is_left_out(project: Path, state: State) -> None:
    write_secret_stack(project, "awskms://alias/pulumi", "plain")
    assert prepare_stack(project, "dev", state, {}).settings.read_text() == "config:\n  shop:key:\n    plain\n"


def test_whether_the_backend_knows_the_stack(project: Path, state: State) -> None:
    stack = prepare_stack(project, "dev", state, {})
    assert not stack.exists(state)
    known = state.backend / ".pulumi/stacks/shop/dev.json"
    known.parent.mkdir(parents=True)
    known.touch()
    assert stack.exists(state)
