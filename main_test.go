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
	// A probe of memberlist that is under way at the stop ends with its own timeout, some seconds later.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/hashicorp/memberlist.(*Memberlist).probeNode"))
}
