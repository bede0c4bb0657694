//go:build unix

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/troupe-run/troupe/graph/tensor"
)

// Random graphs give the same results on clusters of one, two and four tasks, to the last bit:
// where a node runs changes nothing.
func TestRandomGraphsOnSmallAndLargeClusters(t *testing.T) {
	graphs := uint64(40)
	if full() {
		graphs = 400
	}
	sizes := []int{1, 2, places}
	clusters := make([]*embedded, len(sizes))
	for i, tasks := range sizes {
		clusters[i] = embed(t, "worker", tasks)
	}
	for seed := range graphs {
		g := newRandomGraph(seed, 20+int(seed)*3%100)
		var first []string
		for i, e := range clusters {
			master := int(seed) % sizes[i]
			got, err := runRandomGraph(t, e, master, g, sizes[i], seed)
			if err != nil {
				t.Fatalf("graph %d on %d tasks, master %d: %v", seed, sizes[i], master, err)
			}
			if i == 0 {
				first = got
				continue
			}
			for j := range got {
				if got[j] != first[j] {
					t.Errorf("graph %d on %d tasks: value %d is %s, on one task %s", seed, sizes[i], j, got[j], first[j])
				}
			}
		}
		if t.Failed() {
			t.Fatalf("graph %d:\n%v", seed, g.on("worker", sizes[len(sizes)-1]))
		}
	}
}

// runRandomGraph runs three steps of a graph and describes all that they fetched.
func runRandomGraph(t *testing.T, e *embedded, master int, g *randomGraph, tasks int, seed uint64) (got []string, err error) {
	ctx, cancel := context.WithTimeout(t.Context(), slack(20*time.Second))
	defer cancel()
	s, err := e.servers[master].NewSession(ctx, g.on("worker", tasks), nil)
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
	fetches := make([]string, 0, len(g.matrices)+len(g.scalars))
	for _, name := range append(append(fetches, g.matrices[len(g.feeds):]...), g.scalars...) {
		fetches = append(fetches, name+":0")
	}
	r := rand.New(rand.NewPCG(seed, 99))
	for step := range 3 {
		fed := map[string]*tensor.Tensor{}
		for _, name := range g.feeds {
			values := make([]float32, side*side)
			for i := range values {
				values[i] = r.Float32()*4 - 2
			}
			if fed[name], err = tensor.FromSlice(tensor.Float32, tensor.Shape{side, side}, values); err != nil {
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
