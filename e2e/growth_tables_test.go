//go:build unix

package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
)

// TestGrowthTables takes the curves of docs/growth.md, which takes some minutes, and writes them to
// the file that TROUPE_E2E_GROWTH names.
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
