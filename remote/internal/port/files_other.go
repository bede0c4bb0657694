//go:build !linux && !darwin

package port

// OpenFiles returns how many files the process may open; 0 because that is not known on this system.
func OpenFiles() uint64 { return 0 }
