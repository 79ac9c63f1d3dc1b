// Command pulumi-resource-kubernetes serves the published Kubernetes provider, built from its Go module.
package main

import (
	_ "embed"

	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/provider"
	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/version"
)

//go:embed schema.json
var schema []byte

//go:embed terraform-mapping.json
var mapping []byte

func main() {
	provider.Serve("kubernetes", version.Version, schema, mapping)
}
