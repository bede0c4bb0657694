package troupe

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain fails when a goroutine outlives the servers and clients of the tests.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
