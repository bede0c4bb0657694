//go:build unix

package e2e

import (
	"bytes"
	"context"
	cmdline "flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/troupe-run/troupe/graph/tensor"
	"google.golang.org/protobuf/encoding/prototext"
)

var (
	graphCount = cmdline.Int("graphs", 0, "how many random graphs to compare; 0: a share that fits into the time of a test")
	graphSeed  = cmdline.Uint64("graph-seed", 0, "the seed of the first random graph")
)

// Random graphs give the same results on clusters of one, two and four tasks, to the last bit: where a node runs
// changes nothing, and neither does how a function is run. A graph that fails is made smaller before it is shown.
func TestRandomGraphsOnSmallAndLargeClusters(t *testing.T) {
	graphs := uint64(*graphCount)
	if graphs == 0 {
		graphs = 120
		if full() {
			graphs = 1200
		}
	}
	c := newSizes(t)
	for seed := *graphSeed; seed < *graphSeed+graphs; seed++ {
		statements := 2 + int(seed)%16
		err := c.compare(t, seed, statements)
		if err == nil {
			continue
		}
		for less := 0; less < statements; less++ {
			if smaller := c.compare(t, seed, less); smaller != nil {
				statements, err = less, smaller
				break
			}
		}
		path := filepath.Join(os.TempDir(), fmt.Sprintf("graph-%d-%d.pbtxt", seed, statements))
		text := prototext.Format(newRandomGraph(seed, statements).on("worker", places))
		if werr := os.WriteFile(path, []byte(text), 0o600); werr != nil {
			t.Error(werr)
		}
		t.Fatalf("the graph of seed %d with %d statements (-graph-seed=%d -graphs=1; %s): %v", seed, statements, seed, path, err)
	}
}

// sizes are clusters of one, two and four tasks.
type sizes struct {
	tasks    []int
	clusters []*embedded
}

func newSizes(t *testing.T) *sizes {
	c := &sizes{tasks: []int{1, 2, places}}
	for _, n := range c.tasks {
		c.clusters = append(c.clusters, embed(t, "worker", n))
	}
	return c
}

// compare runs a graph on each cluster, and tells the first difference.
func (c *sizes) compare(t *testing.T, seed uint64, statements int) error {
	g := newRandomGraph(seed, statements)
	var first []string
	for i, e := range c.clusters {
		master := int(seed) % c.tasks[i]
		got, err := runRandomGraph(t, e, master, g, c.tasks[i], seed)
		if err != nil {
			return fmt.Errorf("on %d tasks, master %d: %w", c.tasks[i], master, err)
		}
		if i == 0 {
			first = got
		}
		for j := range got {
			if got[j] != first[j] {
				return fmt.Errorf("on %d tasks, master %d, %s, but on one task %s", c.tasks[i], master, got[j], first[j])
			}
		}
	}
	return nil
}

// runRandomGraph runs three steps of a graph and describes all that they fetched.
func runRandomGraph(t *testing.T, e *embedded, master int, g *randomGraph, tasks int, seed uint64) (got []string, err error) {
	ctx, cancel := context.WithTimeout(t.Context(), slack(20*time.Second))
	defer cancel()
	def := g.on("worker", tasks)
	s, err := e.servers[master].NewSession(ctx, def, nil)
	if err != nil {
		return nil, err
	}
	defer func() {
		if cerr := s.Close(ctx); err == nil {
			err = cerr
		}
	}()
	if len(g.inits) > 0 {
		if _, err := s.Run(ctx, nil, nil, g.inits); err != nil {
			return nil, fmt.Errorf("initializing: %w", err)
		}
	}
	fetches := g.fetches()
	for step, values := range g.values(seed) {
		fed := map[string]*tensor.Tensor{}
		for i, name := range g.feeds {
			if fed[name], err = tensor.FromSlice(tensor.Float32, tensor.Shape{side, side}, values[i]); err != nil {
				return nil, err
			}
		}
		out, err := s.Run(ctx, fed, fetches, g.updates)
		for _, v := range fed {
			v.Release()
		}
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", step, err)
		}
		for i, v := range out {
			var b bytes.Buffer
			fmt.Fprintf(&b, "step %d, %s: %v %v %x", step, fetches[i], v.DType(), v.Shape(), v.Data())
			got = append(got, b.String())
			v.Release()
		}
	}
	return got, nil
}

// values are what the three steps of a graph are fed.
func (g *randomGraph) values(seed uint64) [][][]float32 {
	r := rand.New(rand.NewPCG(seed, 99))
	steps := make([][][]float32, 3)
	for i := range steps {
		for range g.feeds {
			values := make([]float32, side*side)
			for k := range values {
				values[k] = r.Float32()*4 - 2
			}
			steps[i] = append(steps[i], values)
		}
	}
	return steps
}
