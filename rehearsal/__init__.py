"""Stand in for AWS, so that the whole stack runs under a real Pulumi engine on a machine without an account."""
