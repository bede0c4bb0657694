package view

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/prototext"
)

// TestWhyAsks runs the transcripts of testdata/why_actors: a cluster as a text message, a line of dashes, and what is said of its requests.
func TestWhyAsks(t *testing.T) {
	files, err := filepath.Glob("testdata/why_actors/*.txt")
	if err != nil || len(files) < 11 {
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
			var got strings.Builder
			for _, r := range WhyAsks(&c, time.Second) {
				kind := ""
				if r.Blocked {
					kind = "blocked: "
				}
				if r.Deadlock {
					kind = "deadlock: "
				}
				fmt.Fprintf(&got, "%s%s, for %v s: %s\n", kind, r.Actor, r.Seconds, r.Text)
			}
			if *rewrite {
				if err := os.WriteFile(file, append(append(seen, "\n----\n"...), got.String()...), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got.String() != string(want) {
				t.Errorf("got:\n%swant:\n%s", &got, want)
			}
		})
	}
}

// TestWhyAsksOfMany explains actors of which each asks all others, and a chain of actors that is longer than an explanation, without delay.
func TestWhyAsksOfMany(t *testing.T) {
	const actors = 100
	task := &Task{Task: "a", State: StateUp}
	ask := func(from, to int) {
		id := fmt.Sprint("?", len(task.Asks))
		task.Asks = append(task.Asks, &Ask{Id: id, Actor: fmt.Sprint(from), Blocks: true, ToTask: "a", To: fmt.Sprint(to), Type: "t", Began: 1})
		task.Held = append(task.Held, &Held{Ask: &Asked{Task: "a", Id: id}, Actor: fmt.Sprint(to), State: "queued", ActorState: "running"})
	}
	for i := range actors {
		for k := range actors {
			ask(i, k)
		}
	}
	all := WhyAsks(&Cluster{Clock: 1e10, Tasks: []*Task{task}}, time.Second)
	if len(all) == 0 || !all[0].Deadlock {
		t.Errorf("%d explanations: %.300v", len(all), all)
	}
	task.Asks, task.Held = nil, nil
	for i := range 10_000 {
		ask(i, i+1)
	}
	all = WhyAsks(&Cluster{Clock: 1e10, Tasks: []*Task{task}}, time.Second)
	if len(all) == 0 || !strings.Contains(all[0].Text, "and so on") || len(all[0].Text) > 1<<14 {
		t.Errorf("%d explanations: %.300v", len(all), all)
	}
}
