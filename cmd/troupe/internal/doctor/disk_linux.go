package doctor

import "golang.org/x/sys/unix"

// roomOf returns the bytes that files in a directory may still take, or -1 if that is not known.
func roomOf(dir string) int64 {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return -1
	}
	return int64(s.Bavail) * s.Bsize
}
