package port

import (
	"errors"
	"syscall"
)

const (
	// maxSorting is how many connections may wait to be sorted, which is for their first byte or the end of the TLS
	// handshake. One of them is closed for one more.
	maxSorting = 4 << 10
	// fileReserve is which part of the files that the process may open is left to what is no client's connection:
	// links, files of ops, libraries.
	fileReserve = 4
	// maxConnections bounds the connections of a process that may open any number of files.
	maxConnections = 1 << 16
)

// connectionLimit is how many connections a port serves, given how many files the process may open; 0 for as many as it
// likes.
func connectionLimit(files uint64) int {
	if files == 0 || files > maxConnections*fileReserve/(fileReserve-1) {
		return maxConnections
	}
	return max(1, int(files-files/fileReserve))
}

// noFiles tells whether an error is that the process, or the machine, can open no more files.
func noFiles(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}
