package cast

import (
	"runtime"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/internal/extent"
)

// mostIdle is how many bytes of the heap an actor may take that rests, without what the program keeps for it.
const mostIdle = 800

// idle is an actor without state.
type idle struct{}

func (*idle) Receive(*Context, any) {}
func (*idle) Close() error          { return nil }

// TestIdleActorsAreSmall checks how much memory actors take that rest: that were just made, that have handled messages, and that have answered requests.
func TestIdleActorsAreSmall(t *testing.T) {
	if extent.RaceDetector {
		t.Skip("the race detector allocates")
	}
	const actors = 60_000 // of few, the actor system's tables take more
	for _, made := range []string{"made", "sent a message", "asked"} {
		t.Run(made, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, _ := newNetwork(t, "a")
				s := n.casts["a"]
				s.kinds["idle"] = &actorKind{"idle", Maker{Make: func(*Context, proto.Message) (Actor, error) { return &idle{}, nil }}}
				before := live()
				for i := range actors {
					ref, err := s.Spawn(t.Context(), "idle", Ref{Name: "actor-" + strconv.Itoa(i)}, nil)
					if err == nil && made != "made" {
						err = s.Send(t.Context(), Ref{}, ref, text("a message"))
					}
					if err != nil {
						t.Fatal(err)
					}
					if made == "asked" {
						_, _ = s.Ask(t.Context(), ref, text("a request")) // it is not answered, and fails when Receive returns
					}
				}
				time.Sleep(time.Minute) // the goroutines that ran them have ended
				each := (live() - before) / actors
				t.Logf("%d bytes", each)
				if each > mostIdle {
					t.Errorf("an actor that rests takes %d bytes, of %d at most", each, mostIdle)
				}
			})
		})
	}
}

// live returns the bytes of the heap that are in use, and of stacks.
func live() int {
	runtime.GC()
	runtime.GC() // what the first one finds in pools goes with the second one
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc + m.StackInuse)
}
