//go:build !race

package freed

// Overwrite does nothing.
func Overwrite([]byte) {}
