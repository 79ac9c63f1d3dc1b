"""EC2 capacity reservations: CreateCapacityReservation, DescribeCapacityReservations, CancelCapacityReservation."""

from datetime import UTC, datetime

from moto.core.responses import ActionResult
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.responses import EC2Response
from moto.moto_api._internal import mock_random

from . import faults
from .store import Record, ec2_store, with_tags


class CapacityReservations(EC2Response):
    """Answer the On-Demand capacity reservation actions that moto lacks."""

    def create_capacity_reservation(self) -> ActionResult:
        """Reserve capacity in one zone; a fault that is set for this type and zone is what the caller gets instead."""
        zone, instance_type = self._get_param("AvailabilityZone"), self._get_param("InstanceType")
        count = int(self._get_param("InstanceCount"))
        faults.refuse_unoffered(self.region, instance_type, [zone])
        fault = faults.take("reservation", instance_type=instance_type, zone=zone)
        if fault is not None:
            raise EC2ClientError(fault.code, faults.message(fault, self.region, instance_type, [zone]))
        group = self._get_param("PlacementGroupArn")
        reservation_id = f"cr-{mock_random.get_random_hex(17)}"
        record: Record = {
            "CapacityReservationId": reservation_id,
            "CapacityReservationArn": (
                f"arn:{self.partition}:ec2:{self.region}:{self.current_account}:capacity-reservation/{reservation_id}"
            ),
            "OwnerId": self.current_account,
            "AvailabilityZone": zone,
            "InstanceType": instance_type,
            "InstancePlatform": self._get_param("InstancePlatform"),
            "InstanceMatchCriteria": self._get_param("InstanceMatchCriteria", "open"),
            "Tenancy": self._get_param("Tenancy", "default"),
            "EndDateType": self._get_param("EndDateType", "unlimited"),
            "TotalInstanceCount": count,
            "AvailableInstanceCount": count,
            "State": "active",
            "CreateDate": datetime.now(UTC),
            **({"PlacementGroupArn": group} if group else {}),
        }
        ec2_store(self.current_account, self.region).reservations[reservation_id] = record
        self.ec2_backend.create_tags([reservation_id], self._parse_tag_specification().get("capacity-reservation", {}))
        return ActionResult(
            {"CapacityReservation": with_tags(self.ec2_backend, record, record["CapacityReservationId"])}
        )

    def describe_capacity_reservations(self) -> ActionResult:
        """Describe reservations by id or by the filters state, instance-type, availability-zone and placement-group-arn."""
        records = ec2_store(self.current_account, self.region).reservations
        ids, filters = self._get_param("CapacityReservationIds", []), self._filters_from_querystring()
        for reservation_id in ids:
            if reservation_id not in records:
                raise _unknown(reservation_id)
        keys = {
            "state": "State",
            "instance-type": "InstanceType",
            "availability-zone": "AvailabilityZone",
            "placement-group-arn": "PlacementGroupArn",
        }
        if unknown := [name for name in filters if name not in keys]:
            raise EC2ClientError("InvalidParameterValue", f"The filter '{unknown[0]}' is invalid")
        return ActionResult(
            {
                "CapacityReservations": [
                    with_tags(self.ec2_backend, record, record["CapacityReservationId"])
                    for reservation_id, record in records.items()
                    if (not ids or reservation_id in ids)
                    and all(str(record.get(keys[name])) in wanted for name, wanted in filters.items())
                ]
            }
        )

    def cancel_capacity_reservation(self) -> ActionResult:
        """Cancel a reservation; what was cancelled stays visible in state `cancelled`, as with EC2."""
        reservation_id = self._get_param("CapacityReservationId")
        records = ec2_store(self.current_account, self.region).reservations
        if reservation_id not in records:
            raise _unknown(reservation_id)
        records[reservation_id] |= {"State": "cancelled", "AvailableInstanceCount": 0}
        return ActionResult({"Return": True})


def _unknown(reservation_id: str) -> EC2ClientError:
    return EC2ClientError(
        "InvalidCapacityReservationId.NotFound", f"The capacity reservation '{reservation_id}' does not exist."
    )
