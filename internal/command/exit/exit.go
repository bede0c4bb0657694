// Package exit has the exit codes of Troupe's programs, and errors that carry one.
package exit

import (
	"errors"

	"github.com/troupe-run/troupe/graph/status"
)

// The exit codes. The help of the command troupe documents them, and package serve.
const (
	CodeOK          = 0
	CodeFailed      = 1
	CodeUsage       = 2
	CodeRefused     = 3
	CodeUnreachable = 4
)

// codedError is an error with the exit code of the process.
type codedError struct {
	code int
	err  error
}

func (e *codedError) Error() string { return e.err.Error() }
func (e *codedError) Unwrap() error { return e.err }

// With gives an error an exit code.
func With(code int, err error) error { return &codedError{code, err} }

// Usage marks an error as an invalid command line.
func Usage(err error) error { return With(CodeUsage, err) }

// Refused marks an error as an invalid cluster or configuration, unless the error already has an exit code.
func Refused(err error) error { return orElse(err, CodeRefused) }

// Failed marks an error as a failure of what the command does.
func Failed(err error) error { return With(CodeFailed, err) }

// FromServer adds an exit code to the error of a call to a server, unless it has one.
func FromServer(err error) error {
	switch status.CodeOf(err) {
	case status.OK:
		return nil
	case status.Unavailable, status.DeadlineExceeded:
		return orElse(err, CodeUnreachable)
	}
	return orElse(err, CodeFailed)
}

// CodeOf returns an error's exit code, or otherwise if it has none.
func CodeOf(err error, otherwise int) int {
	if e, ok := errors.AsType[*codedError](err); ok {
		return e.code
	}
	return otherwise
}

// orElse adds an exit code to an error that has none.
func orElse(err error, code int) error { return With(CodeOf(err, code), err) }
