//go:build unix

package e2e

import (
	"encoding/json"
	cmdline "flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/troupe-run/troupe/e2e/internal/metamorphic"
	"google.golang.org/protobuf/proto"
)

var (
	graphCount = cmdline.Int("graphs", 0, "how many random programs to send to TensorFlow; 0: a share that fits into the time of a test")
	graphSeed  = cmdline.Uint64("graph-seed", 0, "the seed of the first random program")
)

// A sample of the random programs, sent by TensorFlow's own client, gives on two tasks what TensorFlow's own servers give,
// and both give what the interpreter of package metamorphic does.
func TestRandomProgramsOnTensorFlow(t *testing.T) {
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
		p := metamorphic.Of(seed)
		e := metamorphic.Export(p, fmt.Sprintf("program%d_", seed), []string{"/job:worker/task:0", "/job:worker/task:1"})
		def, err := proto.Marshal(e.Graph)
		if err != nil {
			t.Fatal(err)
		}
		about, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, fmt.Sprintf("graph%06d", seed))
		for suffix, content := range map[string][]byte{".pb": def, ".json": about, ".txt": []byte(p.String())} {
			if err := os.WriteFile(name+suffix, content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	c := newCluster(t, "worker=2")
	d := drivers.borrow(t)
	expect(t, "graphs", program(t, d, "random_graphs.py", dir, c.tasks[0].target()), fmt.Sprintf("same: %d of %d", graphs, graphs))
}
