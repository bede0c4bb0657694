//go:build !(cuda && cgo && linux)

package cuda

import "github.com/troupe-run/troupe/devices/gpu"

// Driver has no cards in this build.
type Driver struct{}

// Cards returns ErrWithout.
func (Driver) Cards() ([]gpu.Card, error) { return nil, ErrWithout }

// Version returns ErrWithout.
func Version() (int, error) { return 0, ErrWithout }
