package membership

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/internal/wire"
	"github.com/troupe-run/troupe/remote/spec"
)

// slow are links to tasks that answer when they are released, and that are gone then.
type slow struct {
	vouchers
	greeted atomic.Int64
	release chan struct{}
}

func (s *slow) Greet(context.Context, spec.Task) (*wire.Identity, error) {
	s.greeted.Add(1)
	<-s.release
	return nil, status.New(status.Unavailable, "connection refused")
}

// TestSpecsAreAskedForInTurn checks that one goroutine asks for specs, however many tasks gossip at once: what they
// gossip while it waits for answers, it asks for afterwards.
func TestSpecsAreAskedForInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		links := &slow{release: make(chan struct{})}
		m := &Membership{config: Config{Links: links}, log: slog.New(slog.DiscardHandler), ctx: t.Context(),
			unknown: map[string]spec.Task{}, asked: map[passedSpec]time.Time{}}
		ask := func(i int) { m.ask(spec.Task{Job: "worker", Index: i}, fmt.Sprint(i), time.Now()) }
		const first = greetAtOnce / 2
		for i := range first {
			ask(i)
		}
		synctest.Wait()
		before := links.greeted.Load()
		ask(first)
		synctest.Wait()
		if n := links.greeted.Load(); n != before {
			t.Error("a task is greeted before those have answered that are being greeted")
		}
		close(links.release)
		m.work.Wait()
		if n := links.greeted.Load(); n != first+1 {
			t.Errorf("%d tasks were greeted, want %d", n, first+1)
		}
	})
}
