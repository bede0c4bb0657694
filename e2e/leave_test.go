//go:build unix

package e2e

import (
	"testing"
	"time"
)

// TestParameterServersV1 trains with TensorFlow 1's ParameterServerStrategy, on each of two workers.
func TestParameterServersV1(t *testing.T) {
	t.Parallel() // it waits more than it computes
	runWithPackage(t, 2*time.Minute, "both workers train the weights of two parameter servers\n", "clients/parameter_servers_v1.py")
}

// TestLeave ends a task in order whose queue, tables and variables an open session of another task's uses: all that they have moves there, and the
// session goes on.
func TestLeave(t *testing.T) {
	t.Parallel() // it waits more than it computes
	runWithPackage(t, 2*time.Minute, "an open session goes on with all that has moved\n", "clients/leave.py")
}
