// Package process gives kernels access to the name, environment and terminal of their process. Kernels do not import package os, because it
// also opens files, which they must get from kernels/files.
package process

import (
	"io"
	"os"
)

// Host returns the machine's host name.
func Host() (string, error) { return os.Hostname() }

// ID returns the process ID.
func ID() int { return os.Getpid() }

// Env returns an environment variable, or "" if it is not set.
func Env(name string) string { return os.Getenv(name) }

// Stdout returns the process's standard output, for ops that print.
func Stdout() io.Writer { return os.Stdout }

// Stderr returns the process's standard error, where errors and most of what ops print goes.
func Stderr() io.Writer { return os.Stderr }
