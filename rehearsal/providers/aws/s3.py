"""S3 bucket and objects."""

from __future__ import annotations

import base64
import io
import mimetypes
import zipfile
from pathlib import Path

from ..errors import ApiError, OperationError
from ..naming import Autoname
from ..values import ARCHIVE, SIGNATURE, Properties, Props, Value
from .kind import Call, Kind, as_tag_list, from_tag_list, void


def _create_bucket(call: Call) -> str:
    name = call.inputs.text("bucket")
    where = None if call.region == "us-east-1" else {"LocationConstraint": call.region}
    call("s3", "CreateBucket", Bucket=name, CreateBucketConfiguration=where)
    _tag(call, name)
    return name


def _tag(call: Call, name: str) -> None:
    if call.tags():
        call("s3", "PutBucketTagging", Bucket=name, Tagging={"TagSet": as_tag_list(call.tags())})
    elif call.old.mapping("tags"):
        call("s3", "DeleteBucketTagging", Bucket=name)


def _read_bucket(call: Call) -> Properties | None:
    call("s3", "HeadBucket", Bucket=call.id)
    try:
        tags = from_tag_list(call("s3", "GetBucketTagging", Bucket=call.id).blocks("TagSet"))
    except ApiError as error:
        if error.code != "NoSuchTagSet":
            raise
        tags = None
    return {
        "arn": f"arn:aws:s3:::{call.id}",
        "bucket": call.id,
        "bucketPrefix": "",
        "bucketDomainName": f"{call.id}.s3.amazonaws.com",
        "bucketRegion": call.region,
        "bucketRegionalDomainName": f"{call.id}.s3.{call.region}.amazonaws.com",
        "hostedZoneId": "Z2O1EMRO9K5GLX",
        "objectLockEnabled": False,
        "requestPayer": "BucketOwner",
        "tags": tags,
    }


def _delete_bucket(call: Call) -> None:
    if call.state.flag("forceDestroy"):
        while listed := _versions(call):
            call("s3", "DeleteObjects", Bucket=call.id, Delete={"Objects": listed, "Quiet": True})
    call("s3", "DeleteBucket", Bucket=call.id)


def _versions(call: Call) -> list[dict[str, str]]:
    """Return key and version of what is in the bucket, as many as S3 lists, and deletes, at once."""
    listed = call("s3", "ListObjectVersions", Bucket=call.id)
    found = (*listed.blocks("Versions"), *listed.blocks("DeleteMarkers"))
    return [{"Key": version.text("Key"), "VersionId": version.text("VersionId")} for version in found]


def _bucket_name(inputs: Props) -> list[tuple[str, str]]:
    name = inputs.text("bucket")
    allowed = set("abcdefghijklmnopqrstuvwxyz0123456789.-")
    if name and (
        not 3 <= len(name) <= 63 or not set(name) <= allowed or not name[0].isalnum() or not name[-1].isalnum()
    ):
        return [("bucket", f"bucket must be 3 to 63 of a-z, 0-9, dot and hyphen, found {name!r}")]
    return []


def _moved_away(inputs: Props) -> list[tuple[str, str]]:
    apart = {
        "versioning": "BucketVersioning",
        "serverSideEncryptionConfiguration": "BucketServerSideEncryptionConfiguration",
        "lifecycleRules": "BucketLifecycleConfiguration",
        "policy": "BucketPolicy",
        "acl": "BucketAcl",
        "logging": "BucketLogging",
        "website": "BucketWebsiteConfiguration",
        "corsRules": "BucketCorsConfiguration",
    }
    return [
        (name, f"the stand-in keeps {name} apart from the bucket, as pulumi-aws advises: use aws.s3.{kind}")
        for name, kind in apart.items()
        if inputs.get(name)
    ]


BUCKET = Kind(
    title="S3 Bucket",
    create=_create_bucket,
    read=_read_bucket,
    update=lambda call: _tag(call, call.id),
    delete=_delete_bucket,
    replace_on=("bucket", "bucketPrefix", "objectLockEnabled", "bucketNamespace"),
    autoname=Autoname(property="bucket", most=63, lower=True),
    defaults={"forceDestroy": False},
    rules=(_bucket_name, _moved_away),
    gone=("404", "NoSuchBucket"),
)


def content(source: Value, text: str, encoded: str) -> bytes:
    """Give the bytes of an object: from an asset or archive, from text, or from base64.

    Raises:
        OperationError: the asset is of a kind that the stand-in can not read.
    """
    if isinstance(source, dict):
        return _asset(source)
    return base64.b64decode(encoded) if encoded else text.encode()


def _asset(asset: dict[str, Value]) -> bytes:
    props = Props(asset)
    if asset.get(SIGNATURE) == ARCHIVE:
        return _archive(props)
    if isinstance(asset.get("text"), str):
        return props.text("text").encode()
    if props.text("path"):
        return Path(props.text("path")).read_bytes()
    raise OperationError(
        "source: the stand-in reads assets of text or of a local path, not of a URI; use FileAsset, StringAsset or FileArchive"
    )


def _archive(archive: Props) -> bytes:
    path = Path(archive.text("path"))
    if archive.text("path") and path.is_file():
        return path.read_bytes()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        members = archive.get("assets")
        if isinstance(members, dict):
            for name, member in sorted(members.items()):
                file.writestr(zipfile.ZipInfo(name), content(member, "", ""))
        elif archive.text("path") and path.is_dir():
            for member_path in sorted(part for part in path.rglob("*") if part.is_file()):
                # A fixed date, so that the same content makes the same bytes.
                file.writestr(zipfile.ZipInfo(str(member_path.relative_to(path))), member_path.read_bytes())
        else:
            raise OperationError(
                "source: the stand-in reads archives of assets or of a local path; use AssetArchive or FileArchive"
            )
    return packed.getvalue()


def _put_object(call: Call) -> str:
    inputs = call.inputs
    bucket, key = inputs.text("bucket"), inputs.text("key")
    body = content(inputs.get("source"), inputs.text("content"), inputs.text("contentBase64"))
    call(
        "s3",
        "PutObject",
        Bucket=bucket,
        Key=key,
        Body=body,
        ContentType=inputs.text("contentType") or mimetypes.guess_type(key)[0] or "application/octet-stream",
        ServerSideEncryption=inputs.text("serverSideEncryption") or None,
        SSEKMSKeyId=inputs.text("kmsKeyId") or None,
        Metadata=inputs.mapping("metadata") or None,
    )
    if call.tags():
        call("s3", "PutObjectTagging", Bucket=bucket, Key=key, Tagging={"TagSet": as_tag_list(call.tags())})
    return f"{bucket}/{key}"


def _read_object(call: Call) -> Properties | None:
    bucket, _, key = call.id.partition("/")
    found = call("s3", "HeadObject", Bucket=bucket, Key=key)
    return {
        "arn": f"arn:aws:s3:::{call.id}",
        "bucket": bucket,
        "key": key,
        "etag": found.text("ETag").strip('"'),
        "versionId": found.text("VersionId"),
        "contentType": found.text("ContentType"),
        "serverSideEncryption": found.text("ServerSideEncryption", "AES256"),
        "kmsKeyId": found.text("SSEKMSKeyId") or call.inputs.text("kmsKeyId"),
        "storageClass": found.text("StorageClass", "STANDARD"),
        "bucketKeyEnabled": found.flag("BucketKeyEnabled"),
        "tags": call.inputs.get("tags"),
    }


def _delete_object(call: Call) -> None:
    bucket, _, key = call.id.partition("/")
    versions = call("s3", "ListObjectVersions", Bucket=bucket, Prefix=key)
    for listed in (*versions.blocks("Versions"), *versions.blocks("DeleteMarkers")):
        if listed.text("Key") == key:
            version = listed.text("VersionId")
            call("s3", "DeleteObject", Bucket=bucket, Key=key, VersionId=version if version != "null" else None)


def _one_source(inputs: Props) -> list[tuple[str, str]]:
    given = [name for name in ("content", "contentBase64", "source") if inputs.get(name) is not None]
    if len(given) > 1:
        return [(given[0], f"only one of content, contentBase64, source is allowed, found {', '.join(given)}")]
    return []


BUCKET_OBJECT = Kind(
    title="S3 Object",
    create=_put_object,
    read=_read_object,
    update=lambda call: void(Props({"id": _put_object(call)})),
    delete=_delete_object,
    replace_on=("bucket", "key"),
    autoname=Autoname(property="key", most=1024),
    defaults={"forceDestroy": False},
    rules=(_one_source,),
    recomputed=("versionId", "etag"),
    gone=("404", "NoSuchKey", "NoSuchBucket"),
)
