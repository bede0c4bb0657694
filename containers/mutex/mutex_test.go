package mutex

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/view"
)

func TestLocksInOrder(t *testing.T) {
	m := New("m")
	var got []string
	locks := map[string]*Lock{}
	lock := func(name string) func(error) {
		return m.Lock(context.Background(), view.StepOrigin{Step: 1}, func(l *Lock, err error) {
			if err != nil {
				name += ": " + err.Error()
			}
			got = append(got, name)
			locks[name] = l
		})
	}
	expect := func(want ...string) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		got = nil
	}
	lock("a")
	cancel := lock("b")
	lock("c")
	lock("d")
	expect("a")
	cancel(errors.New("the step failed"))
	expect("b: Lock acquisition cancelled.")
	locks["a"].Retain()
	locks["a"].Release()
	expect()
	if n := locks["a"].References(); n != 1 {
		t.Errorf("%d references", n)
	}
	locks["a"].Release()
	expect("c")
	m.Close()
	expect("d: Mutex 'm' was deleted.")
	locks["c"].Release() // a held lock outlives its mutex
	lock("e")
	expect("e: Mutex 'm' was deleted.")
}

func TestCancelled(t *testing.T) {
	m := New("m")
	var held *Lock
	m.Lock(context.Background(), view.StepOrigin{Step: 1}, func(l *Lock, _ error) { held = l })
	var err error
	m.Lock(context.Background(), view.StepOrigin{Step: 1}, func(_ *Lock, e error) { err = e })(errors.New("the step failed"))
	if e := status.From(err); e == nil || e.Code != status.Cancelled || !e.Derived {
		t.Errorf("got %#v", err)
	}
	held.Release()
}

// TestShow checks what listings say of a mutex that is held, and of one that is free again.
func TestShow(t *testing.T) {
	m := New("m")
	var held *Lock
	m.Lock(context.Background(), view.StepOrigin{Step: 7}, func(l *Lock, _ error) { held = l })
	var r view.Resource
	if m.Show(&r); !slices.Equal(r.HeldBy, []uint64{7}) || r.Holder == nil {
		t.Errorf("the holder is %v, %v", r.HeldBy, r.Holder)
	}
	if got := m.Describe(); got != "mutex, locked" {
		t.Error(got)
	}
	held.Release()
	r.HeldBy, r.Holder = nil, nil
	if m.Show(&r); r.HeldBy != nil || r.Holder != nil {
		t.Errorf("the holder of a free mutex is %v, %v", r.HeldBy, r.Holder)
	}
	if got := m.Describe(); got != "mutex, free" {
		t.Error(got)
	}
}
