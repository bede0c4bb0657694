package cast

import (
	"context"
	"strconv"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph/status"
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
	n.order.Lock() // the answers come after all that is held
	n.mu.Lock()
	n.pass = nil
	n.mu.Unlock()
	for _, deliver := range held {
		deliver()
	}
	n.order.Unlock()
	for i, known := range set {
		select {
		case <-known:
		case <-ctx.Done():
			t.Fatalf("watch %d of %d was not acknowledged", i, len(set))
		}
	}
}

// TestReplyThatCannotBeSent checks that a request is not lost with a reply that waits for a link when the life of the actor ends.
func TestReplyThatCannotBeSent(t *testing.T) {
	for _, keeps := range []bool{false, true} {
		n, _ := newNetwork(t, "a", "b")
		b := n.casts["b"]
		begun, replied := make(chan struct{}), make(chan error, 1)
		play(t, b, "replier", func(c *Context, message any) {
			if keeps {
				c.Keep()
			}
			close(begun)
			replied <- c.Reply(text("an answer"))
		})
		if _, err := n.casts["a"].Spawn(deadline(t), "echo", Ref{"b", "echo"}, nil); err != nil { // opens a's link
			t.Fatal(err)
		}
		open := make(chan struct{})
		n.mu.Lock()
		n.reach = func(ctx context.Context) error {
			select {
			case <-open:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		n.mu.Unlock()
		b.lanes["a"].way.Store(nil)
		asked := make(chan error, 1)
		go func() {
			_, err := n.casts["a"].Ask(deadline(t), Ref{"b", "replier"}, text("a question"))
			asked <- err
		}()
		<-begun
		p, err := b.find("replier")
		if err != nil {
			t.Fatal(err)
		}
		p.dismiss(status.New(status.Aborted, "the actor has to go"))
		if err := <-replied; status.CodeOf(err) != status.Cancelled {
			t.Errorf("keeps %v: the reply: %v", keeps, err)
		}
		close(open)
		if err := <-asked; status.CodeOf(err) != status.Aborted {
			t.Errorf("keeps %v: %v", keeps, err)
		}
	}
}
