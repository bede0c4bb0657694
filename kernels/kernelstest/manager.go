package kernelstest

import (
	"testing"

	"github.com/troupe-run/troupe/containers"
)

// NewManager makes the containers of a device, with the default container "test".
func NewManager(testing.TB) *containers.Manager {
	return containers.NewManager(nil, DeviceName, "test")
}
