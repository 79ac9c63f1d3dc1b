"""Lay out the network interfaces of a launch template."""

from typing import NamedTuple

from infra.instances.instance_type import InstanceType, InterfaceKind


class NetworkInterface(NamedTuple):
    """One entry of a launch template's network interfaces."""

    network_card_index: int
    device_index: int
    interface_type: InterfaceKind


def interfaces(instance: InstanceType, efa: int) -> list[NetworkInterface]:
    """Return the interfaces of a node with `efa` EFA devices, the primary one first; without EFA, one ENA interface.

    EC2's guide has described two layouts for several cards:

    - ENA and EFA together on card 0 (`efa`, device 0), then `efa-only`, device 1, on each further card. The guide's
      layout until 2025, and eksctl's. It costs card 0 no second slot: on p5, which has two slots a card, the other
      layout halves the addresses left for pods. Used wherever the guide has described it.
    - ENA alone on card 0, device 0; `efa-only` as device 1 of card 0 and device 0 of each further card. The guide's
      layout today, and the only one that it gives for P6. P6-B300's card 0 has no EFA at all.

    With fewer devices than cards they are spread evenly, because neighbouring cards share a GPU: on p5 the first eight
    of 32 cards would serve two GPUs of eight.

    Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-acc-inst-types.html

    Raises ValueError when `efa` is negative or more than the type has.
    """
    if not 0 <= efa <= instance.efa_interfaces:
        advice = "choose a type with EFA or 0" if instance.efa_interfaces == 0 else "lower it or choose a larger type"
        raise ValueError(
            f"EFA interfaces: found {efa}; {instance.name} has {instance.efa_interfaces}, so 0 to "
            f"{instance.efa_interfaces} are allowed; {advice}"
        )
    if efa == 0:
        return [NetworkInterface(0, 0, "interface")]
    cards = [instance.efa_cards[index * instance.efa_interfaces // efa] for index in range(efa)]
    if instance.primary_interface == "efa":
        return [NetworkInterface(0, 0, "efa"), *(NetworkInterface(card, 1, "efa-only") for card in cards[1:])]
    return [
        NetworkInterface(0, 0, "interface"),
        *(NetworkInterface(card, 1 if card == 0 else 0, "efa-only") for card in cards),
    ]
