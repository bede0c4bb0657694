package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/troupe-run/troupe/remote/spec/spectest"
)

// asProgram is the environment variable that makes the test binary run the program.
const asProgram = "COUNTER_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// Three processes add to the same counter.
func TestAcrossProcesses(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	addresses := spectest.Addresses(t, 3)
	sums := make(chan string)
	var all []*exec.Cmd
	for _, args := range [][]string{{"--count=" + strings.Join(addresses, ","), "--task=0"}, {"--join", addresses[0]}, {"--join", addresses[0]}} {
		cmd := exec.CommandContext(t.Context(), self, args...)
		cmd.Env = append(os.Environ(), asProgram+"=1")
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		all = append(all, cmd)
		go func() {
			for lines := bufio.NewScanner(out); lines.Scan(); {
				if _, sum, ok := strings.Cut(lines.Text(), "visits: "); ok {
					sums <- sum
				}
			}
		}()
	}
	got := []string{<-sums, <-sums, <-sums}
	slices.Sort(got)
	if fmt.Sprint(got) != "[1 2 3]" {
		t.Errorf("the sums are %v", got)
	}
	for _, cmd := range all {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
	}
	for _, cmd := range all {
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
}
