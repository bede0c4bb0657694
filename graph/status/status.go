// Package status holds the errors that cross Troupe's wires: a code of TensorFlow's
// (tensorflow.error.Code, which equals gRPC's numbers and Python's exception classes), a
// message, and whether the error is only the consequence of another one.
package status

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Code is a tensorflow.error.Code.
type Code int32

// The codes of tensorflow/core/protobuf/error_codes.proto.
const (
	OK                 Code = 0
	Cancelled          Code = 1
	Unknown            Code = 2
	InvalidArgument    Code = 3
	DeadlineExceeded   Code = 4
	NotFound           Code = 5
	AlreadyExists      Code = 6
	PermissionDenied   Code = 7
	ResourceExhausted  Code = 8
	FailedPrecondition Code = 9
	Aborted            Code = 10
	OutOfRange         Code = 11
	Unimplemented      Code = 12
	Internal           Code = 13
	Unavailable        Code = 14
	DataLoss           Code = 15
	Unauthenticated    Code = 16
)

var names = [...]string{"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND",
	"ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE",
	"UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED"}

// String is the code's name as TensorFlow prints it, such as INVALID_ARGUMENT.
func (c Code) String() string {
	if c >= 0 && int(c) < len(names) {
		return names[c]
	}
	return fmt.Sprintf("CODE_%d", int32(c))
}

// Error is an error with a code. It is immutable.
type Error struct {
	Code    Code
	Message string
	// Derived marks the consequence of another error (a step cancelled because one of its
	// kernels failed): a derived error loses against a root error when both are known.
	Derived bool
}

// Error is the message alone: what TensorFlow's client shows after the class.
func (e *Error) Error() string { return e.Message }

// New makes an error whose message is msg, verbatim.
func New(code Code, msg string) error { return &Error{Code: code, Message: msg} }

// Errorf makes an error with a formatted message.
func Errorf(code Code, format string, args ...any) error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// InvalidArgumentf is Errorf with the code that bad requests and bad kernel inputs get.
func InvalidArgumentf(format string, args ...any) error {
	return Errorf(InvalidArgument, format, args...)
}

// Unimplementedf is Errorf with the code of what this runtime does not support.
func Unimplementedf(format string, args ...any) error { return Errorf(Unimplemented, format, args...) }

// Internalf is Errorf with the code of a bug of the runtime's own.
func Internalf(format string, args ...any) error { return Errorf(Internal, format, args...) }

// From gives the *Error that err is or wraps. Errors of package context become CANCELLED
// and DEADLINE_EXCEEDED, all others UNKNOWN; nil stays nil.
func From(err error) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, context.Canceled):
		return &Error{Code: Cancelled, Message: err.Error()}
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{Code: DeadlineExceeded, Message: err.Error()}
	}
	return &Error{Code: Unknown, Message: err.Error()}
}

// CodeOf is the code of err; OK for nil.
func CodeOf(err error) Code {
	if err == nil {
		return OK
	}
	return From(err).Code
}

// Derive marks err as the consequence of another error; nil stays nil.
func Derive(err error) error {
	if err == nil {
		return nil
	}
	e := *From(err)
	e.Derived = true
	return &e
}

// AtNode appends the node that failed in the form that TensorFlow's Python client turns into
// the line of the program that made it. An error that names a node already is left alone.
func AtNode(err error, node string) error {
	if err == nil {
		return nil
	}
	e := *From(err)
	if strings.Contains(e.Message, "{{node ") {
		return &e
	}
	e.Message += "\n\t [[{{node " + node + "}}]]"
	return &e
}

// AtTask prefixes the task on which the error arose, as TensorFlow's master does for errors
// of its workers. An error that names a task already is left alone.
func AtTask(err error, task string) error {
	if err == nil {
		return nil
	}
	e := *From(err)
	if strings.HasPrefix(e.Message, "From /job:") {
		return &e
	}
	e.Message = "From " + task + ":\n" + e.Message
	return &e
}

// Worse tells which of two errors a step should report: a root error before a derived one,
// then the one that came first. Either may be nil.
func Worse(first, second error) error {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	case From(first).Derived && !From(second).Derived:
		return second
	}
	return first
}
