package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe/remote/spec/spectest"
	"go.uber.org/goleak"
)

// asProgram is the environment variable that makes the test binary run the program.
const asProgram = "WORDCOUNT_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/hashicorp/memberlist.(*Memberlist).probeNode"))
}

func check(t *testing.T, out string) {
	t.Helper()
	for _, line := range []string{"8 lines have 61 different words", "  15 the\n   9 a\n   8 and\n   5 one\n   4 is\n",
		"/task:0/actor:counter has 17 words", "/task:1/actor:counter has 24 words", "/task:2/actor:counter has 20 words"} {
		if !strings.Contains(out, line) {
			t.Errorf("%q is not in\n%s", line, out)
		}
	}
}

func TestInOneProcess(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out bytes.Buffer
	if err := local(ctx, &out); err != nil {
		t.Fatal(err)
	}
	check(t, out.String())
}

// TestAcrossProcesses: one process declares the cluster, two join it, and all exit.
func TestAcrossProcesses(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	addresses := spectest.Addresses(t, 3)
	start := func(out io.Writer, args ...string) *exec.Cmd {
		t.Helper()
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(ctx, self, args...)
		cmd.Env = append(os.Environ(), asProgram+"=1")
		cmd.Stdout, cmd.Stderr = out, out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	var outs [3]bytes.Buffer
	all := []*exec.Cmd{start(&outs[0], "--count="+strings.Join(addresses, ","), "--task=0"),
		start(&outs[1], "--join", addresses[0]), start(&outs[2], "--join", addresses[0])}
	for i, cmd := range all {
		if err := cmd.Wait(); err != nil {
			t.Errorf("process %d: %v: %s", i, err, outs[i].String())
		}
	}
	check(t, outs[0].String())
	joined := outs[1].String() + outs[2].String()
	for _, task := range []string{"task:1 serves", "task:2 serves"} {
		if !strings.Contains(joined, task) {
			t.Errorf("%q is not in\n%s", task, joined)
		}
	}
}
