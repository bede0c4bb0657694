//go:build !linux

package tensor

// askHuge and unaskHuge do nothing here: these systems choose their pages themselves.
func askHuge([]byte)   {}
func unaskHuge([]byte) {}
