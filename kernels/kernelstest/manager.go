package kernelstest

import (
	"testing"

	"github.com/troupe-run/troupe/containers"
)

// NewManager returns the containers of a device, with the default container "test". They are maps, not actors.
func NewManager(testing.TB) *containers.Manager {
	return containers.NewManager(nil, DeviceName, "test")
}
