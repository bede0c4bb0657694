package troupe

import (
	"os"
	"runtime"
	"testing"

	"go.uber.org/goleak"

	"github.com/troupe-run/troupe/internal/extent"
)

// TestMain fails when a goroutine outlives the servers and clients of the tests.
func TestMain(m *testing.M) {
	if task := os.Getenv(outsiderEnv); task != "" {
		runOutsider(task)
		return
	}
	// Under the race detector, all timers of a bubble of synctest share one of its contexts (Go 1.26): two processors that run timers of one moment,
	// such as those that are due when they are started, end the process with SIGSEGV.
	if extent.RaceDetector {
		runtime.GOMAXPROCS(1)
	}
	// A memberlist probe in flight when a server stops ends with its own timeout, some seconds later.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/hashicorp/memberlist.(*Memberlist).probeNode"))
}
