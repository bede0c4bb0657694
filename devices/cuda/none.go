//go:build !(cuda && cgo && linux)

package cuda

import (
	"errors"

	"github.com/troupe-run/troupe/devices/gpu"
)

// Driver has no cards in this build.
type Driver struct{}

var errWithout = errors.New("this binary was built without CUDA: build it on Linux with -tags cuda and cgo (make cuda)")

// Cards says that this build has none.
func (Driver) Cards() ([]gpu.Card, error) { return nil, errWithout }

// Version says that this build has no driver.
func Version() (int, error) { return 0, errWithout }
