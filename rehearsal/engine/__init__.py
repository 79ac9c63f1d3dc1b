"""Run a real Pulumi engine on this project with nothing but this machine: own state, own plugins, no cloud."""
