package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestWatch(t *testing.T) {
	at := time.Unix(0, 0)
	w := newWatch(func() time.Time { return at })
	step := func(seconds int, line string) {
		at = at.Add(time.Duration(seconds) * time.Second)
		w.line(line)
	}
	wants := func(test string, seconds int) {
		t.Helper()
		if name, since := w.hung(time.Minute); name != test || since != time.Duration(seconds)*time.Second {
			t.Errorf("%q has made no progress for %v; want %q, %d s", name, since, test, seconds)
		}
	}
	wants("", 0)
	step(0, "=== RUN   TestA\n")
	step(61, "TestA prints --- PASS: TestA\n")
	wants("TestA", 61)
	step(0, "\x16=== RUN   TestA/one\n")
	wants("", 0)
	step(50, "    --- PASS: TestA/one (50.00s)\n")
	wants("", 0)
	step(10, "=== PAUSE TestA\n")
	step(600, "=== RUN   TestB\n")
	wants("", 0)
	step(70, "=== CONT  TestA\n")
	wants("TestB", 70)
	step(1, "--- FAIL: TestB (71.00s)\n")
	step(1, "--- SKIP: TestA (0.00s)\n")
	step(900, "PASS\n")
	wants("", 0)
	// Without test2json, subtests' ends come late.
	step(0, "=== RUN   TestC\n")
	for _, name := range []string{"/1", "/1/inner", "/2", "/3"} {
		step(50, "=== RUN   TestC"+name+"\n")
		wants("", 0)
	}
	step(61, "TestC/3 prints\n")
	wants("TestC/3", 61)
}

// TestHungTest runs a binary with a test that hangs, and one that takes as long but has subtests.
func TestHungTest(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module hung\n",
		"a_test.go": `package hung
import ("fmt"; "testing"; "time")
func TestLong(t *testing.T) { for i := range 30 { t.Run(fmt.Sprint(i), func(*testing.T) { time.Sleep(100 * time.Millisecond) }) } }
func TestHangs(t *testing.T) { if testing.Short() { t.Skip() }; select {} }
`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	bounded := filepath.Join(dir, "bounded")
	if out, err := exec.Command("go", "build", "-o", bounded, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, short := range []bool{true, false} {
		args := []string{"test", "-count=1", "-v", "-exec", bounded + " -limit 1s"}
		if short {
			args = append(args, "-short")
		}
		cmd := exec.Command("go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		err := cmd.Run()
		said := strings.Contains(out.String(), "bounded: TestHangs has made no progress for") && strings.Contains(out.String(), "hung.TestHangs(")
		if short != (err == nil) || short == said || !strings.Contains(out.String(), "--- PASS: TestLong ") {
			t.Errorf("short: %v: %v\n%s", short, err, &out)
		}
	}
}
