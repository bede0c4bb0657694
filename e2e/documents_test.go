//go:build unix

package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	markedProgram = regexp.MustCompile("(?s)<!-- program: (\\w+)(, beside the next)? -->\n```python\n(.*?)```")
	printed       = regexp.MustCompile(`(?m)^ *print\(.*\)  # (.*)$`)
)

// The marked Python programs of the documents run, one after the other but where the mark says otherwise, on a cluster, and print what the comments beside
// their prints say.
func TestProgramsOfDocuments(t *testing.T) {
	python := needPython(t)
	modules, err := filepath.Abs("../python")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"../README.md", "../docs/tutorial.md"} {
		t.Run(filepath.Base(name), func(t *testing.T) {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			programs := markedProgram.FindAllStringSubmatch(string(text), -1)
			if len(programs) == 0 {
				t.Fatal("it has no programs")
			}
			c := newCluster(t, "ps=1,worker=2")
			env := append(os.Environ(), "PS="+c.task("ps", 0).target(), "WORKER0="+c.task("worker", 0).target(), "WORKER1="+c.task("worker", 1).target(),
				"PYTHONPATH="+modules+string(filepath.ListSeparator)+os.Getenv("PYTHONPATH"), "PYTHONDONTWRITEBYTECODE=1", "TROUPE_BINARY="+binary(t), "TF_CPP_MIN_LOG_LEVEL=3")
			var running []func()
			for _, p := range programs {
				running = append(running, startProgram(t, python, env, p[1], p[3]))
				if p[2] == "" {
					for _, wait := range running {
						wait()
					}
					running = nil
				}
			}
		})
	}
}

// startProgram starts a program, and gives what waits for its end and looks at what it printed.
func startProgram(t *testing.T, python string, env []string, name, text string) (wait func()) {
	ctx, cancel := context.WithTimeout(t.Context(), slack(time.Minute))
	run := exec.CommandContext(ctx, python, "-c", text)
	run.Env, run.WaitDelay = env, 5*time.Second
	var out, problems strings.Builder
	run.Stdout, run.Stderr = &out, &problems
	err := run.Start()
	return func() {
		defer cancel()
		if err == nil {
			err = run.Wait()
		}
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, problems.String())
		}
		var want []string
		for _, line := range printed.FindAllStringSubmatch(text, -1) {
			want = append(want, line[1])
		}
		if got := strings.Split(strings.TrimSpace(out.String()), "\n"); !slices.Equal(got, want) && len(want) > 0 {
			t.Errorf("%s printed %q, want %q", name, got, want)
		}
	}
}
