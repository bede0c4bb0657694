package view

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/prototext"
)

var rewrite = flag.Bool("rewrite", false, "write what Why says into the transcripts")

// TestWhy runs the transcripts of testdata/why: a cluster as a text message, a line of dashes, and why its first step does not end.
func TestWhy(t *testing.T) {
	files, err := filepath.Glob("testdata/why/*.txt")
	if err != nil || len(files) < 15 {
		t.Fatalf("%d transcripts: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			seen, want, _ := bytes.Cut(text, []byte("\n----\n"))
			var c Cluster
			if err := prototext.Unmarshal(seen, &c); err != nil {
				t.Fatal(err)
			}
			r, ok := Why(&c, 1)
			if !ok {
				t.Fatal("there is no step 1")
			}
			got := r.Text + "\n"
			if r.Deadlock {
				got = "deadlock: " + got
			}
			if *rewrite {
				if err := os.WriteFile(file, append(append(seen, "\n----\n"...), got...), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(want) {
				t.Errorf("got:\n%swant:\n%s", got, want)
			}
		})
	}
}

func TestWhyOfStepsThatEnded(t *testing.T) {
	if r, ok := Why(&Cluster{}, 1); ok {
		t.Errorf("a step that nobody knows: %v", r)
	}
	if all := WhyAll(&Cluster{Clock: 2e9, Tasks: []*Task{{Task: "a", State: "up", Steps: []*Step{{Id: 7, Runs: true, Began: 1e9}, {Id: 8, Runs: true, Began: 15e8}}}}}, 600e6); len(all) != 1 || all[0].Step != 7 {
		t.Errorf("steps that ran for more than 0.6 s: %v", all)
	}
}

// TestWhyOfManyWays checks that a step in which many nodes wait for many others is explained without delay.
func TestWhyOfManyWays(t *testing.T) {
	const nodes = 64 // of each part: as many as a look shows
	tasks := []string{"/job:a/replica:0/task:0", "/job:b/replica:0/task:0"}
	c := &Cluster{Clock: 2e9}
	for i, task := range tasks {
		s := &Step{Id: 1, Master: tasks[0], Runs: true, Began: 1e9}
		for n := range nodes {
			s.Waits = append(s.Waits, &Wait{Node: fmt.Sprint("n", n), Op: "_Recv", Kind: Input, From: tasks[1-i] + "/device:CPU:0", Edge: "unknown"})
		}
		c.Tasks = append(c.Tasks, &Task{Task: task, State: "up", Steps: []*Step{s}})
	}
	if r, ok := Why(c, 1); !ok || !r.Deadlock {
		t.Errorf("tasks that wait for each other: %.200v", r)
	}
}
