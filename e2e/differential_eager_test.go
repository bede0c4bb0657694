//go:build unix

package e2e

import (
	cmdline "flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe/internal/extent"
)

var (
	eagerSeed     = cmdline.Int("eager-seed", 0, "the number of the first random program of TensorFlow 2")
	eagerPrograms = cmdline.Int("eager-programs", 0, "how many random programs of TensorFlow 2; 0: a share that fits into the time of a test")
)

// TestEagerProgramsOnTensorFlow compares random programs that use tasks as devices on Troupe with TensorFlow's own servers: values, devices
// and errors of each statement. A program that differs is made small and printed with its number.
func TestEagerProgramsOnTensorFlow(t *testing.T) {
	if *eagerPrograms == 0 && !extent.Check() {
		t.Skip("with TROUPE_TESTS=check, or a number of -eager-programs")
	}
	t.Parallel() // it waits more than it computes
	needPython(t)
	var addresses []string
	for _, k := range newCluster(t, "worker=3").tasks {
		addresses = append(addresses, k.addr)
	}
	args := []string{"differential/run_eager.py", "--seed", fmt.Sprint(*eagerSeed), "--ours", strings.Join(addresses, ",")}
	limit := 4 * time.Minute
	programs := *eagerPrograms
	if programs == 0 && extent.Full() {
		programs = 500
	}
	switch {
	case programs > 0:
		args = append(args, "--programs", fmt.Sprint(programs))
		limit += time.Duration(10*programs) * time.Second
	case extent.Check():
		args = append(args, "--programs", "60", "--time", "40", "--findings", "1", "--shrink", "30")
	}
	// The run ends itself, and says what it has done, also when programs hang; the rest is for the last of them.
	log := compares(t, limit+20*time.Minute, append(args, "--within", fmt.Sprint(limit.Seconds()))...)
	if !strings.Contains(log, "programs: ") || strings.Contains(log, "programs: 0,") {
		t.Error("no program ran")
	}
	if all := fmt.Sprintf("programs: %d,", programs); programs > 0 && !strings.Contains(log, all) {
		t.Errorf("within %v, there was no time for all programs: %s", limit, log)
	}
	t.Log(log)
}

// TestEagerComparison tests what counts as a difference.
func TestEagerComparison(t *testing.T) {
	t.Parallel()
	compares(t, time.Minute, "differential/eager_compare_test.py")
}
