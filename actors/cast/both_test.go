package cast

import (
	"strconv"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/actors/wire"
)

// TestTasksThatWatchEachOther checks that two tasks that watch more of each other's actors at the same time than they have couriers answer each other.
func TestTasksThatWatchEachOther(t *testing.T) {
	n, _ := newNetwork(t, "a", "b")
	tasks, ctx := []string{"a", "b"}, deadline(t)
	const each = 2 * maxCouriers
	for _, task := range tasks {
		for i := range each {
			spawn(t, n.casts[task], "echo", Ref{task, strconv.Itoa(i)})
		}
	}
	for i, task := range tasks { // open the links
		if _, err := n.casts[task].Ask(ctx, Ref{tasks[1-i], "0"}, text("hello")); err != nil {
			t.Fatal(err)
		}
	}
	var mu sync.Mutex
	var held []func()
	n.mu.Lock()
	n.pass = func(_, _ string, m proto.Message, deliver func()) {
		if mail, ok := m.(*wire.Mail); ok && mail.GetWatch() != nil {
			mu.Lock()
			defer mu.Unlock()
			held = append(held, deliver)
			return
		}
		deliver()
	}
	n.mu.Unlock()
	var set []<-chan struct{}
	for i, task := range tasks {
		for j := range each {
			known, cancel, err := n.casts[task].Watch(Ref{tasks[1-i], strconv.Itoa(j)}, func(Ended) {})
			if err != nil {
				t.Fatal(err)
			}
			defer cancel()
			set = append(set, known)
		}
	}
	n.mu.Lock()
	n.pass = nil
	n.mu.Unlock()
	for _, deliver := range held {
		deliver()
	}
	for i, known := range set {
		select {
		case <-known:
		case <-ctx.Done():
			t.Fatalf("watch %d of %d was not acknowledged", i, len(set))
		}
	}
}
