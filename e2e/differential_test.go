//go:build unix

package e2e

import (
	cmdline "flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe/internal/extent"
)

var (
	differentialArea     = cmdline.String("differential-area", "all", "the area of random programs to compare with TensorFlow's servers")
	differentialSeed     = cmdline.Uint64("differential-seed", 0, "the seed of the first random program")
	differentialPrograms = cmdline.Int("differential-programs", 0, "how many random programs of each area; 0: a share that fits into the time of a test")
)

// differentialTime bounds the default run of one area, without the time to shrink a finding.
func differentialTime() time.Duration {
	if extent.Check() {
		return 6 * time.Second
	}
	return 2 * time.Second
}

// TestProgramsOnTensorFlow compares random programs on Troupe with TensorFlow's own servers: values, state and errors. A program that
// differs is shrunk and printed with its seed.
func TestProgramsOnTensorFlow(t *testing.T) {
	t.Parallel()
	needPython(t)
	c := newCluster(t, "ps=1,worker=2")
	var targets []string
	for _, k := range c.tasks {
		targets = append(targets, k.key()+"="+k.target())
	}
	args := []string{"differential/run.py", "--area", *differentialArea, "--seed", fmt.Sprint(*differentialSeed), "--ours", strings.Join(targets, ",")}
	limit := 3 * time.Minute
	programs := *differentialPrograms
	if programs == 0 && extent.Full() {
		programs = 500
	}
	if programs > 0 {
		args = append(args, "--programs", fmt.Sprint(programs))
		limit += time.Duration(3*programs) * time.Second
	} else {
		args = append(args, "--programs", "60", "--time", fmt.Sprint(differentialTime().Seconds()), "--findings", "1", "--shrink", "30")
	}
	log := compares(t, limit, args...)
	areas := []string{"steps", "tasks", "references"}
	if *differentialArea != "all" {
		areas = []string{*differentialArea}
	}
	for _, area := range areas {
		if !strings.Contains(log, area+": programs: ") || strings.Contains(log, area+": programs: 0,") {
			t.Errorf("no program of area %s ran", area)
		}
	}
	t.Log(log)
}

// compares runs a Python program that compares random programs, which must end in success within a time, and returns what it prints.
func compares(t *testing.T, limit time.Duration, args ...string) (printed string) {
	t.Helper()
	cmd := exec.Command(needPython(t), args...)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "TMPDIR="+scratch)
	if testing.Verbose() {
		cmd.Stdout = os.Stdout // as it comes: a long run may be watched
	}
	p, err := launch(filepath.Base(args[0]), cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	code, err := p.wait(extent.Slack(limit))
	if err != nil {
		t.Fatalf("%v\n%s", err, p.log.tail())
	}
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, p.log)
	}
	return p.log.String()
}
