package membership

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/spec"
	"github.com/troupe-run/troupe/remote/wire"
)

// crowd are links to a cluster in which those tasks answer that there tells.
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

// What a start costs does not grow with the cluster, and one task of many is found.
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
			least int   // tasks that are found
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
