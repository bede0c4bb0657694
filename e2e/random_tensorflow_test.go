//go:build unix

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/proto"
)

// A sample of the random graphs, sent by TensorFlow's own client, gives on two tasks what TensorFlow's own servers give.
func TestRandomGraphsOnTensorFlow(t *testing.T) {
	needPython(t)
	graphs := uint64(25)
	if full() {
		graphs = 200
	}
	if *graphCount > 0 {
		graphs = uint64(*graphCount)
	}
	dir := t.TempDir()
	for seed := *graphSeed; seed < *graphSeed+graphs; seed++ {
		g := newRandomGraph(seed, 2+int(seed)%12)
		def, err := proto.Marshal(g.on("worker", 2))
		if err != nil {
			t.Fatal(err)
		}
		about, err := json.Marshal(map[string]any{"init": append([]string{}, g.inits...), "steps": g.values(seed), "feed": g.feeds,
			"fetch": g.fetches(), "target": append([]string{}, g.updates...)})
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, fmt.Sprintf("graph%06d", seed))
		for suffix, content := range map[string][]byte{".pb": def, ".json": about} {
			if err := os.WriteFile(name+suffix, content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	c := newCluster(t, "worker=2")
	d := drivers.borrow(t)
	expect(t, "graphs", program(t, d, "random_graphs.py", dir, c.tasks[0].target()), fmt.Sprintf("same: %d of %d", graphs, graphs))
}
