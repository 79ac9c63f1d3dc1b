"""The `aws` stand-in: resources of pulumi-aws, kept in a local AWS API."""
