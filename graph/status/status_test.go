package status

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
)

func TestCausesAreKept(t *testing.T) {
	opened := &fs.PathError{Op: "open", Path: "/x", Err: fs.ErrNotExist}
	for name, err := range map[string]error{
		"From":      From(opened),
		"Errorf":    Errorf(NotFound, "no model: %w", opened),
		"Derive":    Derive(Errorf(NotFound, "no model: %w", opened)),
		"AtNode":    AtNode(Errorf(NotFound, "no model: %w", opened), "n"),
		"AtCaller":  AtCaller(AtNode(Errorf(NotFound, "no model: %w", opened), "n"), "f"),
		"AtTask":    AtTask(opened, "/job:ps/replica:0/task:0"),
		"wrapped":   fmt.Errorf("loading: %w", Errorf(NotFound, "no model: %w", opened)),
		"in a join": errors.Join(errors.New("other"), From(opened)),
	} {
		var path *fs.PathError
		if !errors.Is(err, fs.ErrNotExist) || !errors.As(err, &path) || path.Path != "/x" {
			t.Errorf("%s: %v lost its cause", name, err)
		}
	}
	if err := New(Internal, "x"); errors.Unwrap(err) != nil {
		t.Errorf("an error without a cause unwraps to %v", errors.Unwrap(err))
	}
}

func TestEndsOfContexts(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	<-late.Done()
	for _, c := range []struct {
		name               string
		err                error
		cancelled, overdue bool
	}{
		{"From of Canceled", From(context.Canceled), true, false},
		{"From of DeadlineExceeded", From(context.DeadlineExceeded), false, true},
		{"a step closed by others", New(Cancelled, "Session was closed"), false, false},
		{"a server's answer before the deadline", New(DeadlineExceeded, "The step waited for y"), false, true},
		{"CANCELLED in a cancelled context", InContext(cancelled, New(Cancelled, "Step was cancelled")), true, false},
		{"DEADLINE_EXCEEDED in a late context", InContext(late, New(DeadlineExceeded, "x")), false, true},
		{"CANCELLED in a late context", InContext(late, New(Cancelled, "x")), false, true},
		{"another failure in a cancelled context", InContext(cancelled, New(NotFound, "x")), false, false},
		{"CANCELLED in a living context", InContext(t.Context(), New(Cancelled, "x")), false, false},
	} {
		if got := errors.Is(c.err, context.Canceled); got != c.cancelled {
			t.Errorf("%s: context.Canceled is %v", c.name, got)
		}
		if got := errors.Is(c.err, context.DeadlineExceeded); got != c.overdue {
			t.Errorf("%s: context.DeadlineExceeded is %v", c.name, got)
		}
	}
	err := Errorf(Cancelled, "Step was cancelled")
	if got := InContext(cancelled, err); got.Error() != err.Error() || CodeOf(got) != Cancelled {
		t.Errorf("InContext changed %v to %v", err, got)
	}
	if InContext(cancelled, nil) != nil {
		t.Error("InContext made an error of nil")
	}
}

func TestGRPC(t *testing.T) {
	err := fmt.Errorf("a handler: %w", New(NotFound, "no such queue"))
	if s, ok := grpcstatus.FromError(err); !ok || s.Code() != codes.NotFound {
		t.Errorf("gRPC reads %v, %v", s, ok)
	}
	if s, ok := grpcstatus.FromError(New(NotFound, "no such queue")); !ok || s.Message() != "no such queue" {
		t.Errorf("gRPC reads %v, %v", s, ok)
	}
	if e := From(grpcstatus.Error(codes.Unavailable, "gone")); e.Code != Unavailable || e.Message != "gone" {
		t.Errorf("From reads %v %q", e.Code, e.Message)
	}
	for code := OK; code <= Unauthenticated; code++ {
		if got := (&Error{Code: code}).GRPCStatus().Code(); uint32(got) != uint32(code) {
			t.Errorf("%v became %v", code, got)
		}
	}
}

func TestNodesAndTasks(t *testing.T) {
	const worker = "/job:worker/replica:0/task:1"
	for _, c := range []struct {
		err        error
		node, task string
	}{
		{AtNode(New(InvalidArgument, "no"), "scope/MatMul"), "scope/MatMul", ""},
		{AtTask(AtNode(New(InvalidArgument, "no"), "MatMul"), worker), "MatMul", worker},
		{AtCaller(New(InvalidArgument, "no"), "f"), "f", ""},
		{AtCaller(AtNode(New(InvalidArgument, "no"), "MatMul"), "f"), "MatMul", ""},
		{AtOrigin(New(InvalidArgument, "no"), []string{"y", "z"}, []string{"f"}), "y", ""},
		{New(InvalidArgument, "no {{node y"), "", ""},
		{New(Unavailable, "worker "+worker+" (10.0.0.2:2222) was lost: EOF, since 12:00"), "", worker},
		{New(Unavailable, "grpc://10.0.0.1:2222: worker "+worker+" has not been reached"), "", worker},
		{New(Aborted, worker+" (10.0.0.2:2222) was restarted"), "", worker},
		{New(Aborted, "Session 12 is not found."), "", ""},
		{New(Unavailable, "/job:/replica:0/task:1 and /job:a/task:1, then /job:b_2/replica:0/task:10."), "", "/job:b_2/replica:0/task:10"},
		{New(InvalidArgument, "Cannot assign a device "+worker), "", ""},
		{New(Unknown, "From here on"), "", ""},
		{New(Unknown, "From "+worker+" on"), "", ""},
		{New(Internal, ""), "", ""},
	} {
		e := From(fmt.Errorf("wrapped: %w", c.err))
		if e.Node() != c.node || e.Task() != c.task {
			t.Errorf("%q: node %q, task %q", e.Message, e.Node(), e.Task())
		}
	}
}

// TestTexts checks the messages of errors that say more than the error that they are made of.
func TestTexts(t *testing.T) {
	for want, err := range map[string]error{
		"no\n\t [[{{node y}}]]":                                AtNode(New(InvalidArgument, "no"), "y"),
		"no\n\t [[{{function_node f}}{{node y}}, {{node z}}]]": AtOrigin(New(InvalidArgument, "no"), []string{"y", "z"}, []string{"f"}),
		"at line 3: no":                                        Prefix(New(InvalidArgument, "no"), "at line 3: "),
		"at line 3: From /job:zZaA-_9/replica:0/task:0:\nno":   Prefix(AtTask(New(InvalidArgument, "no"), "/job:zZaA-_9/replica:0/task:0"), "at line 3: "),
	} {
		if e := From(err); e.Message != want || e.Code != InvalidArgument {
			t.Errorf("%v: %q, want %q", e.Code, e.Message, want)
		}
	}
	if err := AtTask(New(InvalidArgument, "no"), "/job:zZaA-_9/replica:0/task:0"); From(err).Task() == "" {
		t.Errorf("%q names no task", err)
	}
	for name, err := range map[string]error{"Prefix": Prefix(nil, "x"), "Derive": Derive(nil), "AtNode": AtNode(nil, "x"), "AtTask": AtTask(nil, "x")} {
		if err != nil {
			t.Errorf("%s of no error: %v", name, err)
		}
	}
}

// TestMessagesAreText: what users send need not be valid text.
func TestMessagesAreText(t *testing.T) {
	for _, err := range []error{New(InvalidArgument, "not \xff\xfe text"), InvalidArgumentf("not %s text", "\xff\xfe")} {
		if got := err.Error(); got != "not \ufffd text" {
			t.Errorf("the message is %q", got)
		}
	}
}
