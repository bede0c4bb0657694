//go:build unix

package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
)

// TestGrowthTables measures the curves of docs/growth.md, which takes some minutes, and writes them to the file that TROUPE_E2E_GROWTH
// names.
func TestGrowthTables(t *testing.T) {
	if growthFile() == "" {
		t.Skip("TROUPE_E2E_GROWTH names no file")
	}
	var tables []*growth
	write := func(g *growth) {
		t.Log("\n" + g.markdown())
		tables = append(tables, g)
		var b strings.Builder
		for _, g := range tables {
			b.WriteString(g.markdown() + "\n")
		}
		if err := os.WriteFile(growthFile(), []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const stepTime = time.Second
	t.Run("tasks", func(t *testing.T) {
		g := &growth{title: "Tasks", axis: "tasks"}
		for _, n := range []int{4, 16, 64, 128} {
			t.Run(fmt.Sprint(n), func(t *testing.T) { growWithTasks(t, g, n, 3*time.Second, stepTime) })
		}
		write(g)
	})
	t.Run("sessions", func(t *testing.T) {
		g := &growth{title: "Sessions on one master of four tasks", axis: "sessions"}
		e, _, _ := simulate(t, 4)
		for _, n := range []int{1, 10, 100, 1000} {
			growWithSessions(t, g, e, n, stepTime)
		}
		write(g)
	})
	t.Run("processes", func(t *testing.T) {
		g := &growth{title: "Tasks in processes of their own", axis: "tasks"}
		for _, n := range []int{4, 16} {
			t.Run(fmt.Sprint(n), func(t *testing.T) { growWithProcesses(t, g, n) })
		}
		write(g)
	})
	for _, shape := range []struct {
		name             string
		make             func(job string, tasks, nodes int) *graphpb.GraphDef
		fetches, targets []string
	}{
		{"chains", chains, []string{"sum:0"}, nil},
		{"woven", woven, nil, []string{"group"}},
		{"model", model, nil, []string{"init"}},
	} {
		t.Run(shape.name, func(t *testing.T) {
			const tasks = 4
			e, _, _ := simulate(t, tasks)
			g := &growth{title: fmt.Sprintf("Nodes (%s) over four tasks", shape.name), axis: "nodes"}
			for _, n := range []int{100, 1000, 10_000, 50_000} {
				growWithGraph(t, g, e, shape.make("task", tasks, n), n, shape.fetches, shape.targets, stepTime)
			}
			write(g)
		})
	}
}

// growWithProcesses measures a cluster of real processes: what each holds, and a remote client's steps.
func growWithProcesses(t *testing.T, g *growth, tasks int) {
	var c *cluster
	g.add(tasks, "start, until each lists all devices", "ms", milliseconds(timed(t, func() { c = newCluster(t, fmt.Sprintf("task=%d", tasks)) }).wall))
	resident := func(when string) {
		var all, most float64
		for _, k := range c.tasks {
			v := k.proc.residentMiB(t)
			all, most = all+v, max(most, v)
		}
		g.add(tasks, "resident "+when+", mean of a process", "MiB", all/float64(tasks))
		g.add(tasks, "resident "+when+", largest process", "MiB", most)
	}
	resident("after the start")
	m, err := dial(c.tasks[0].addr)
	if err != nil {
		t.Fatal(err)
	}
	defer m.close()
	def, everywhere := wideGraph("task", tasks)
	session, err := m.createSession(t.Context(), def)
	if err != nil {
		t.Fatal(err)
	}
	for name, targets := range map[string][]string{"no_op on all": everywhere, "no_op on two": everywhere[:2]} {
		cost := steps(t, time.Second, func() {
			if _, err := m.runStep(t.Context(), &corepb.RunStepRequest{SessionHandle: session, Target: targets}); err != nil {
				t.Fatal(err)
			}
		})
		g.add(tasks, name+": median", "µs", microseconds(cost.median))
	}
	resident("after steps")
	if err := m.closeSession(t.Context(), session); err != nil {
		t.Error(err)
	}
}
