"""The `eks` stand-in: the components of pulumi-eks that make a control plane and managed node groups."""
