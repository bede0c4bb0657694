package bench

import (
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/remote/client"
)

func TestRing(t *testing.T) {
	if got := ring(1); len(got) != 0 {
		t.Errorf("a task alone has the pairs %v", got)
	}
	if got, want := ring(3), [][2]int{{0, 1}, {1, 2}, {2, 0}, {0, 2}, {1, 0}, {2, 1}}; !slices.Equal(got, want) {
		t.Errorf("ring(3) is %v, not %v", got, want)
	}
}

func TestSample(t *testing.T) {
	n := 0
	s, err := sample(0, func() error { n++; return nil })
	if err != nil || n != leastRuns || s.Runs != n || s.Best > s.Median {
		t.Errorf("%d runs: %+v, %v", n, s, err)
	}
	gone := errors.New("gone")
	if _, err := sample(time.Hour, func() error { return gone }); !errors.Is(err, gone) {
		t.Errorf("the error is %v", err)
	}
}

// TestRun measures a cluster, a part of whose tasks does not answer, and leaves nothing behind.
func TestRun(t *testing.T) {
	cluster, err := troupe.NewLocalCluster(t.Context(), map[string]int{"ps": 1, "worker": 1}, troupe.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Stop(t.Context())
	var tasks []Task
	for _, s := range cluster.Servers() {
		tasks = append(tasks, Task{s.Task(), s.Target()})
	}
	r, err := Run(t.Context(), tasks, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Tasks) != 2 || len(r.Pairs) != 2 || r.Omitted != 0 || r.Machine.Copy.Runs == 0 {
		t.Fatalf("%+v", r)
	}
	for _, l := range r.Tasks {
		if l.Error != "" || l.Steps.Runs < leastRuns {
			t.Errorf("%+v", l)
		}
	}
	for _, p := range r.Pairs {
		if p.Error != "" || p.Empty.Runs < leastRuns || p.SmallStep.Runs < leastRuns || p.LargeStep.Runs < leastRuns {
			t.Errorf("%+v", p)
		}
	}
	c, err := client.Dial(t.Context(), tasks[0].Target)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	seen, err := c.See(t.Context(), &view.Query{Sections: []string{"resources", "sessions"}, Cluster: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range seen.GetTasks() {
		if len(k.GetResources()) > 0 || len(k.GetSessions()) > 0 {
			t.Errorf("%s is left with %v and %v", k.GetTask(), k.GetResources(), k.GetSessions())
		}
	}

	r, err = Run(t.Context(), []Task{tasks[0], {"/job:worker/replica:0/task:7", "grpc://127.0.0.1:1"}}, time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if r.Tasks[0].Error != "" || r.Tasks[1].Error == "" || len(r.Pairs) != 1 || r.Pairs[0].Error == "" || r.Omitted != 1 {
		t.Errorf("%+v", r)
	}
}
