package membership

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/internal/wire"
	"github.com/troupe-run/troupe/remote/spec"
)

// crowd are links to a cluster in which the tasks answer for which there is true.
type crowd struct {
	vouchers
	there   func(task spec.Task) bool
	greeted atomic.Int64
}

func (c *crowd) Greet(_ context.Context, task spec.Task) (*wire.Identity, error) {
	c.greeted.Add(1)
	if !c.there(task) {
		return nil, status.New(status.Unavailable, "connection refused")
	}
	return c.self, nil
}

// blind are links to a cluster whose tasks find nobody at this task's address.
type blind struct {
	crowd
	asked atomic.Int64
}

func (b *blind) AskVouch(context.Context, spec.Task, string) (*wire.Identity, error) {
	b.asked.Add(1)
	return nil, status.New(status.Unavailable, "connection refused")
}

// TestClaimsAreConfirmed checks that a process that claims a task must be found there; one that was started for it must only not be
// contradicted.
func TestClaimsAreConfirmed(t *testing.T) {
	s, err := spec.Parse("worker=127.0.0.1:1,127.0.0.1:2,127.0.0.1:3")
	if err != nil {
		t.Fatal(err)
	}
	id := &wire.Identity{Boot: 1}
	all := func(there bool) crowd {
		return crowd{vouchers: vouchers{self: id, found: id}, there: func(spec.Task) bool { return there }}
	}
	unseen, absent, seen := &blind{crowd: all(true)}, all(false), all(true)
	for _, row := range []struct {
		name  string
		links Links
		claim bool
		want  status.Code
	}{
		{"nobody finds it", unseen, true, status.FailedPrecondition},
		{"nobody finds it, which was told to be it", unseen, false, status.OK},
		{"nobody is there", &absent, true, status.Unavailable},
		{"nobody is there, it was told to be it", &absent, false, status.OK},
		{"it is found", &seen, true, status.OK},
	} {
		unseen.asked.Store(0)
		m := &Membership{config: Config{Spec: s, Self: s.Tasks()[0], Links: row.links, Confirm: row.claim}, log: slog.New(slog.DiscardHandler)}
		if _, err := m.survey(deadline(t, patience)); status.CodeOf(err) != row.want {
			t.Errorf("%s: %v", row.name, err)
		}
		if n := unseen.asked.Load(); row.links == unseen && row.claim && n != 2*confirmTries {
			t.Errorf("%s: two tasks were asked %d times", row.name, n)
		}
	}
}

// TestGreetings checks that the cost of a start does not grow with the cluster, and that a single running task among many is found.
func TestGreetings(t *testing.T) {
	for _, tasks := range []int{10, 100, 1000} {
		jobs := map[string]map[int]string{"worker": {}}
		for i := range tasks {
			jobs["worker"][i] = fmt.Sprintf("127.0.0.1:%d", 1000+i)
		}
		s, err := spec.New(jobs)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range []struct {
			name  string
			there func(spec.Task) bool
			most  int64 // greetings, besides that of the own address
			least int   // tasks found
		}{
			{"all are there", func(spec.Task) bool { return true }, enough, enough},
			{"nobody is there", func(spec.Task) bool { return false }, int64(tasks), 0},
			{"one is there", func(k spec.Task) bool { return k.Index == tasks/2 }, int64(tasks), 1},
		} {
			id := &wire.Identity{Boot: 1}
			links := &crowd{vouchers: vouchers{self: id, found: id}, there: row.there}
			m := &Membership{config: Config{Spec: s, Self: s.Tasks()[0], Links: links}, log: slog.New(slog.DiscardHandler)}
			present, err := m.survey(deadline(t, patience))
			if n := links.greeted.Load() - 1; err != nil || len(present) < row.least || n > row.most {
				t.Errorf("%d tasks, %s: %d found with %d greetings, %v", tasks, row.name, len(present), n, err)
			}
		}
	}
}
