package waiting

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
)

// tokens is a state to wait for: a counter that requests decrement.
type tokens struct {
	Room
	n int
}

func (s *tokens) add(t *testing.T, n int) {
	t.Helper()
	if err := s.Do(func() error { s.n += n; return nil }); err != nil {
		t.Fatal(err)
	}
}

// take requests n tokens, and records its name when it has received them.
func (s *tokens) take(l *Line, n int, name string, got *[]string) (cancel func(error)) {
	return s.takeFor(context.Background(), l, n, name, got)
}

func (s *tokens) takeFor(step Step, l *Line, n int, name string, got *[]string) (cancel func(error)) {
	return l.Ask(step, func() (bool, error) {
		if s.n < n {
			return false, nil
		}
		s.n -= n
		return true, nil
	}, name+" was cancelled", func(err error) {
		if err != nil {
			name += ": " + err.Error()
		}
		*got = append(*got, name)
	})
}

func expect(t *testing.T, got *[]string, want ...string) {
	t.Helper()
	if !slices.Equal(*got, want) {
		t.Errorf("got %q, want %q", *got, want)
	}
	*got = nil
}

func TestStrictLineServesInOrder(t *testing.T) {
	var s tokens
	var got []string
	l := s.NewLine(true)
	s.take(l, 2, "a", &got)
	s.take(l, 1, "b", &got)
	s.add(t, 1)
	expect(t, &got)
	s.add(t, 2)
	expect(t, &got, "a", "b")
}

func TestOtherLineServesWhoCanGoOn(t *testing.T) {
	var s tokens
	var got []string
	l := s.NewLine(false)
	s.take(l, 2, "a", &got)
	s.take(l, 1, "b", &got)
	s.add(t, 1)
	expect(t, &got, "b")
	s.add(t, 2)
	expect(t, &got, "a")
}

func TestCancelLetsTheNextGoOn(t *testing.T) {
	var s tokens
	var got []string
	l := s.NewLine(true)
	cancel := s.take(l, 2, "a", &got)
	late := s.take(l, 1, "b", &got)
	s.add(t, 1)
	cancel(nil)
	expect(t, &got, "a: a was cancelled", "b")
	cancel(nil)
	late(errors.New("too late"))
	expect(t, &got)
}

func TestCancelForACauseIsDerived(t *testing.T) {
	var s tokens
	l := s.NewLine(true)
	var err error
	cancel := l.Ask(context.Background(), func() (bool, error) { return false, nil }, "waiting was cancelled", func(e error) { err = e })
	cancel(errors.New("the step failed"))
	if e := status.From(err); e == nil || e.Code != status.Cancelled || !e.Derived || e.Message != "waiting was cancelled" {
		t.Errorf("got %#v", err)
	}
}

func TestCloseEndsAll(t *testing.T) {
	var s tokens
	var got []string
	l := s.NewLine(true)
	s.take(l, 1, "a", &got)
	s.take(l, 1, "b", &got)
	dropped := 0
	for range 2 {
		s.Close(errors.New("gone"), func() { dropped++ })
	}
	expect(t, &got, "a: gone", "b: gone")
	s.take(l, 0, "c", &got)
	expect(t, &got, "c: gone")
	if err := s.Do(func() error { t.Error("a change after the end"); return nil }); err == nil || dropped != 1 || !s.Closed() {
		t.Errorf("error %v, dropped %d times", err, dropped)
	}
}

// TestToldOutsideOfTheLock checks that a completion function may use the room.
func TestToldOutsideOfTheLock(t *testing.T) {
	var s tokens
	var got []string
	l := s.NewLine(true)
	l.Ask(context.Background(), func() (bool, error) { return s.n > 0, nil }, "", func(error) { s.take(l, 1, "again", &got) })
	s.add(t, 1)
	expect(t, &got, "again")
}

// TestPanicsAreErrors checks that a panic in an attempt ends the request and leaves the room usable.
func TestPanicsAreErrors(t *testing.T) {
	var s tokens
	l := s.NewLine(true)
	var err error
	l.Ask(context.Background(), func() (bool, error) { panic("a bug") }, "", func(e error) { err = e })
	if status.CodeOf(err) != status.Internal {
		t.Errorf("got %v", err)
	}
	if err := s.Do(func() error { panic("a bug") }); status.CodeOf(err) != status.Internal {
		t.Errorf("got %v", err)
	}
	s.add(t, 1)
}

// TestEndedStep checks that a request whose step has ended is not served, although it has not been cancelled yet, and holds up no other.
func TestEndedStep(t *testing.T) {
	var s tokens
	var got []string
	l := s.NewLine(true)
	step, end := context.WithCancel(t.Context())
	cancel := s.takeFor(step, l, 1, "a", &got)
	s.take(l, 1, "b", &got)
	end()
	s.takeFor(step, l, 1, "c", &got)
	s.add(t, 1)
	cancel(context.Canceled)
	expect(t, &got, "a: a was cancelled", "b", "c: c was cancelled")
}
