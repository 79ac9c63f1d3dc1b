"""A command that ends before its work does, and the one that follows it."""

from __future__ import annotations

import re

from rehearsal.drills.stage import Stage

_UNINSTALL = re.compile(r"`helm uninstall (\S+) --namespace (\S+)`")


def update_killed(stage: Stage) -> str:
    """The machine stops while charts are installed, and again while the Ray cluster comes up: the next update goes on there."""
    stage.empty()
    command = stage.begin_update()
    command.wait_for("a release was pending", lambda: _pending(stage))
    command.kill(stage.world())
    # What Helm had begun stands in the way of the next one, which says what to type.
    blocked = stage.update()
    blocked.must(1, "cannot re-use a name that is still in use", "left by an update that was cut off")
    told = _UNINSTALL.findall("\n".join(blocked.document["causes"]))
    for name, namespace in told:
        stage.helm("uninstall", name, "--namespace", namespace)
    command = stage.begin_until_ray_cluster()
    command.kill(stage.world())
    again = stage.update()
    again.must(0)
    made = again.document["changes"]
    return (
        f"killed with {len(told)} charts begun, uninstalled as told, killed at the RayCluster: {made.get('same', 0)} resources "
        f"were there, the rest came up in {again.seconds:.0f} s"
    )


def destroy_interrupted(stage: Stage) -> str:
    """Ctrl-C half-way through a destroy: the next one takes the rest."""
    stage.update().must(0)
    command = stage.begin("down", "--keep-world")
    command.wait_for("a node group was deleted", lambda: " deleted (" in command.told and "NodeGroup" in command.told)
    command.interrupt()
    first = command.end()
    down = stage.down()
    down.must(0)
    rest = down.document["changes"].get("delete", 0)
    return f"interrupted after {first.seconds:.0f} s; the next destroy took the other {rest}; nothing left"


def policy_violated(stage: Stage) -> str:
    """The GPU nodes would lie in another zone than their placement: the policy refuses, and nothing is made."""
    stage.empty()
    stage.edit(
        "infra/network.py",
        'self._subnet(f"gpu-{args.gpu_zone}", args.gpu_zone,',
        'self._subnet(f"gpu-{args.gpu_zone}", args.control_plane_zones[0],',
    )
    run = stage.up()
    run.must(1)
    if not any("one-gpu-zone" in finding for finding in run.document["policies"]):
        run.must(1, "one-gpu-zone")
    stage.restore()
    down = stage.down()
    down.must(0)
    made = down.document["changes"].get("delete", 0)
    return f"refused by one-gpu-zone in {run.seconds:.0f} s; {made} resources had been made"


def _pending(stage: Stage) -> str:
    """Return the Helm releases that are being installed, by name."""
    return stage.kubectl(
        "get",
        "secrets",
        "-A",
        "-l",
        "owner=helm,status=pending-install",
        "-o",
        "jsonpath={.items[*].metadata.labels.name}",
    )
