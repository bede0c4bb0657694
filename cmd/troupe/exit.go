package main

import (
	"errors"

	"github.com/troupe-run/troupe/graph/status"
)

// The exit codes; the help of the root command tells them to people.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitRefused     = 3
	exitUnreachable = 4
)

// exitError is an error with the exit code that it ends the process with.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

func usage(err error) error { return &exitError{exitUsage, err} }

// refused is for a cluster or configuration that cannot be, unless the error says already what it is.
func refused(err error) error {
	var e *exitError
	if errors.As(err, &e) {
		return err
	}
	return &exitError{exitRefused, err}
}
func failed(err error) error { return &exitError{exitFailed, err} }

// errNotUp is for tasks that are not up where the output has told of them already: it has no text of its own.
var errNotUp = failed(errors.New(""))

// fromServer gives the error of a call to a server its exit code, unless it has one.
func fromServer(err error) error {
	var e *exitError
	if errors.As(err, &e) {
		return err
	}
	switch status.CodeOf(err) {
	case status.OK:
		return nil
	case status.Unavailable, status.DeadlineExceeded:
		return &exitError{exitUnreachable, err}
	}
	return failed(err)
}

// exitCode reads the code off an error. One without is cobra's, about the command line.
func exitCode(err error) int {
	var e *exitError
	if errors.As(err, &e) {
		return e.code
	}
	return exitUsage
}
