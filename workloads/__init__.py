"""The part that talks to Kubernetes: device plugins, KubeRay, the Ray cluster and the training job."""
