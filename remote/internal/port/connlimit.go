package port

import (
	"errors"
	"syscall"
)

const (
	// maxSorting bounds the connections that are being sorted, that is, whose first byte or TLS handshake is pending.
	// Beyond that, one of them is closed for each new one.
	maxSorting = 4 << 10
	// fileReserve: 1/fileReserve of the files that the process may open is reserved for other uses than clients'
	// connections: links, files of ops, libraries.
	fileReserve = 4
	// maxConnections bounds the connections of a process that may open any number of files.
	maxConnections = 1 << 16
)

// connectionLimit returns how many connections a port serves, given how many files the process may open; 0 means any
// number.
func connectionLimit(files uint64) int {
	if files == 0 || files > maxConnections*fileReserve/(fileReserve-1) {
		return maxConnections
	}
	return max(1, int(files-files/fileReserve))
}

// noFiles reports whether an error means that the process, or the machine, cannot open more files.
func noFiles(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}
