"""Which account a request is in: moto looks for the access key in every account, and makes IAM of every partition there to look into.

Each of those reads AWS's 1,500 managed policies, one after the other under moto's one lock of backends: the first request without a
known access key takes seconds for each account in use, and every other request waits with it.
"""

from moto.iam import models

from .catalog import ACCOUNT


def account_of(access_key: str) -> str:
    """Give the account that an access key was made in, the local AWS's own for one that nobody made.

    Only an IAM that exists can have made a key, so none is made to look into.
    """
    # Copied first: other requests add accounts and partitions meanwhile.
    for account, partitions in list(models.iam_backends.items()):
        if any(access_key in iam.access_keys for iam in list(partitions.values())):
            return account
    return ACCOUNT


def install() -> None:
    """Put the search in place: moto's responses take it from IAM's module at each request."""
    models.get_account_id_from = account_of
