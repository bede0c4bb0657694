package troupe

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain fails when a goroutine outlives the servers and clients of the tests.
func TestMain(m *testing.M) {
	if task := os.Getenv(outsiderEnv); task != "" {
		runOutsider(task)
		return
	}
	// A memberlist probe in flight when a server stops ends with its own timeout, some seconds later.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/hashicorp/memberlist.(*Memberlist).probeNode"))
}
