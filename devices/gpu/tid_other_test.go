//go:build !linux

package gpu

// thread is the same for all threads where the system does not name them.
func thread() int { return 0 }
