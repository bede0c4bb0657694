//go:build !linux

package member

import "github.com/troupe-run/troupe/internal/view"

// askSystem adds nothing on this system.
func askSystem(*view.Process) {}
