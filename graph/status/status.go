// Package status defines the errors that Troupe returns and sends. Each has one of TensorFlow's codes (tensorflow.error.Code, with the
// same numbers as gRPC's codes) and a message.
//
// Programs inspect errors with the functions and types of package errors:
//
//	var e *status.Error
//	switch {
//	case errors.Is(err, context.Canceled): // the context of the call was cancelled
//	case errors.Is(err, context.DeadlineExceeded): // the call or its step ran out of time
//	case errors.As(err, &e):
//		log.Print(e.Code, e.Task(), e.Node())
//	}
//
// CodeOf returns the code of any error. An Error is also a gRPC error: a gRPC handler may return it unchanged, and its client gets the
// same code and message.
package status

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
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

// String returns the code's name as TensorFlow prints it, such as INVALID_ARGUMENT.
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
	// Derived marks the consequence of another error, such as a step cancelled because one of its kernels failed. If both are known, the
	// root error is reported rather than the derived one.
	Derived bool

	cause error
}

// Error returns the message alone, which TensorFlow's client shows after the class.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the error that caused this one in the same process, such as the context's or the operating system's, or nil. Causes are
// not sent over the network.
func (e *Error) Unwrap() error { return e.cause }

// Is makes every DEADLINE_EXCEEDED match context.DeadlineExceeded. A server answers shortly before the caller's deadline, so the caller's
// own context may still have time left when the answer arrives.
//
// CANCELLED matches context.Canceled only if the context of the call was cancelled, which Unwrap reveals. A step that ends because another
// client closed its session is CANCELLED, too.
func (e *Error) Is(target error) bool {
	return target == context.DeadlineExceeded && e.Code == DeadlineExceeded
}

// GRPCStatus returns the code and the message as a gRPC status.
func (e *Error) GRPCStatus() *grpcstatus.Status {
	return grpcstatus.New(codes.Code(e.Code), e.Message)
}

// Messages name nodes and tasks in TensorFlow's format. TensorFlow's protocol has no separate fields for them, so Node and Task parse the
// message. The result is therefore the same in the server's process and at a client, for servers of Troupe and of TensorFlow.
const (
	nodeStart, nodeEnd = "{{node ", "}}"
	taskStart          = "From /job:"
)

// Node returns the name of the graph's node that failed, or "" if the message names none.
func (e *Error) Node() string {
	_, rest, found := strings.Cut(e.Message, nodeStart)
	if !found {
		return ""
	}
	name, _, found := strings.Cut(rest, nodeEnd)
	if !found {
		return ""
	}
	return name
}

// Task returns the full name of the task that the error is about, such as /job:worker/replica:0/task:1:
// the task on which a node failed, or, for UNAVAILABLE and ABORTED, the task that was lost, stopped or
// restarted. It is "" if the message names no task, and for errors of the session's own master.
func (e *Error) Task() string {
	if rest, found := strings.CutPrefix(e.Message, "From "); found {
		if name := taskName(rest); name != "" && strings.HasPrefix(rest[len(name):], ":\n") {
			return name
		}
	}
	if e.Code == Unavailable || e.Code == Aborted {
		for rest := e.Message; ; {
			i := strings.Index(rest, "/job:")
			if i < 0 {
				break
			}
			if name := taskName(rest[i:]); name != "" {
				return name
			}
			rest = rest[i+len("/job:"):]
		}
	}
	return ""
}

// AfterEnd is part of the error of a step that requests elements from a queue or an iterator whose end a step of another session had
// already caused: no element that they contain was ever meant for the step.
const AfterEnd = "before this step came"

// AfterEnd reports whether the message contains AfterEnd.
func (e *Error) AfterEnd() bool { return strings.Contains(e.Message, AfterEnd) }

// taskName returns the full task name that text begins with, or "".
func taskName(text string) string {
	at := 0
	for _, part := range []struct {
		label string
		digit bool
	}{{"/job:", false}, {"/replica:", true}, {"/task:", true}} {
		if !strings.HasPrefix(text[at:], part.label) {
			return ""
		}
		at += len(part.label)
		from := at
		for at < len(text) && (digit(text[at]) || !part.digit && letter(text[at])) {
			at++
		}
		if at == from {
			return ""
		}
	}
	return text[:at]
}

func digit(c byte) bool { return '0' <= c && c <= '9' }

func letter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' || c == '-' }

// New returns an error whose message is msg, with invalid UTF-8 replaced: messages quote what users send, and no client could read an
// answer with such bytes.
func New(code Code, msg string) error { return &Error{Code: code, Message: valid(msg)} }

func valid(msg string) string { return strings.ToValidUTF8(msg, "\ufffd") }

// Errorf returns an error with a formatted message. An operand of the verb %w becomes the error's cause.
func Errorf(code Code, format string, args ...any) error {
	args = slices.Clone(args)
	for i, a := range args {
		if v := reflect.ValueOf(a); v.Kind() == reflect.Slice && v.Len() > maxQuoted && v.Type().Elem().Kind() != reflect.Uint8 {
			args[i] = shortened{v.Slice(0, maxQuoted).Interface(), v.Len()}
		}
	}
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: valid(err.Error()), cause: errors.Unwrap(err)}
}

// maxQuoted is the number of elements of a list that a message quotes: tensors that users send as shapes may have millions.
const maxQuoted = 1000

// shortened formats a list of n elements by its first ones.
type shortened struct {
	first any
	n     int
}

// Format formats the first elements like the list, and says that there are more.
func (s shortened) Format(f fmt.State, verb rune) {
	_, _ = fmt.Fprintf(f, fmt.FormatString(f, verb)+" (the first %d of %d)", s.first, maxQuoted, s.n)
}

// InvalidArgumentf is Errorf with the code for bad requests and bad kernel inputs.
func InvalidArgumentf(format string, args ...any) error {
	return Errorf(InvalidArgument, format, args...)
}

// Unimplementedf is Errorf with the code for what this runtime does not support.
func Unimplementedf(format string, args ...any) error { return Errorf(Unimplemented, format, args...) }

// Internalf is Errorf with the code for bugs of the runtime itself.
func Internalf(format string, args ...any) error { return Errorf(Internal, format, args...) }

// From returns the *Error that err is or wraps. A gRPC error keeps its code. Errors of package context become CANCELLED and
// DEADLINE_EXCEEDED, all others UNKNOWN. The result unwraps to err. From(nil) is nil.
func From(err error) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	switch {
	case errors.Is(err, context.Canceled):
		return &Error{Code: Cancelled, Message: err.Error(), cause: err}
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{Code: DeadlineExceeded, Message: err.Error(), cause: err}
	}
	if s, ok := grpcstatus.FromError(err); ok && s.Code() != codes.OK {
		return &Error{Code: Code(s.Code()), Message: s.Message(), cause: err}
	}
	return &Error{Code: Unknown, Message: err.Error(), cause: err}
}

// InContext returns the error of a call that was made with ctx. If the call ended because ctx did, the result unwraps to ctx.Err(). Code
// and message do not change. A nil error stays nil.
func InContext(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil || errors.Is(err, ctx.Err()) {
		return err
	}
	e := *From(err)
	if e.Code != Cancelled && e.Code != DeadlineExceeded {
		return err
	}
	e.cause = ctx.Err()
	return &e
}

// CodeOf returns the code of err, which is OK for nil.
func CodeOf(err error) Code {
	if err == nil {
		return OK
	}
	return From(err).Code
}

// Derive marks err as the consequence of another error. A nil error stays nil.
func Derive(err error) error {
	if err == nil {
		return nil
	}
	e := *From(err)
	e.Derived = true
	return &e
}

// Prefix prepends text to the message. It keeps the code, the cause and Derived. A nil error stays nil.
func Prefix(err error, text string) error {
	if err == nil {
		return nil
	}
	e := *From(err)
	e.Message = text + e.Message
	return &e
}

// AtNode appends the node that failed, in the form that TensorFlow's Python client maps to the line of the program that made it. An error
// that already names a node is returned unchanged.
func AtNode(err error, node string) error { return AtOrigin(err, []string{node}, nil) }

// AtOrigin is AtNode for a node that was made from the given nodes of functions, such as one that was inlined: errors name those, as TensorFlow's do.
// There may be fewer functions than nodes.
func AtOrigin(err error, nodes, functions []string) error {
	if err == nil {
		return nil
	}
	e := *From(err)
	if strings.Contains(e.Message, nodeStart) {
		return &e
	}
	var names strings.Builder
	for i, node := range nodes {
		if i > 0 {
			names.WriteString(", ")
		}
		if i < len(functions) {
			names.WriteString("{{function_node " + functions[i] + nodeEnd)
		}
		names.WriteString(nodeStart + node + nodeEnd)
	}
	e.Message += "\n\t [[" + names.String() + "]]"
	return &e
}

// NamesNode reports whether an error's message names the node that failed.
func NamesNode(err error) bool { return err != nil && strings.Contains(From(err).Message, nodeStart) }

// AtCaller is AtNode for a node whose functions or datasets may have failed. If the message already names a node inside them, AtCaller
// appends the bare name of this one, as TensorFlow's executors do.
func AtCaller(err error, node string) error {
	if !NamesNode(err) {
		return AtNode(err, node)
	}
	e := *From(err)
	e.Message += "\n\t [[" + node + "]]"
	return &e
}

// AtTask prefixes the task on which the error arose, as TensorFlow's master does for errors of its workers. An error that already names a
// task is returned unchanged.
func AtTask(err error, task string) error {
	if err == nil {
		return nil
	}
	e := *From(err)
	if strings.HasPrefix(e.Message, taskStart) {
		return &e
	}
	e.Message = "From " + task + ":\n" + e.Message
	return &e
}

// Worse returns the error that a step should report: a root error rather than a derived one, otherwise the one that came first. Either may
// be nil.
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
