package mapping_test

import (
	"strconv"
	"testing"

	dt "github.com/troupe-run/troupe/kernels/data/internal/datatest"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

// Stages with and without a fixed order return the same elements.
func TestUnorderedStages(t *testing.T) {
	for name, stage := range map[string]func(*dt.Pipe) *dt.Pipe{
		"map": func(p *dt.Pipe) *dt.Pipe {
			a := dt.Calls("f", "double")
			a["deterministic"] = "false"
			return p.Op("ParallelMapDatasetV2", a, dt.Int(4))
		},
		"interleave": func(p *dt.Pipe) *dt.Pipe {
			a := dt.Calls("f", "twice")
			a["deterministic"] = "false"
			return p.Op("ParallelInterleaveDatasetV4", a, dt.Int(3), dt.Int(2), dt.Int(2), dt.Int(0), dt.Int(3))
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := kt.NewDevice(t)
			dt.FunctionDevice = d
			p := stage(dt.NewPipe(d).Numbers(40))
			it := p.Iterate(t)
			defer p.Now.Release()
			sum, n := int64(0), 0
			for {
				v := it.Next()
				if v == "end" {
					break
				}
				x, err := strconv.ParseInt(v, 10, 64)
				if err != nil {
					t.Fatal(v)
				}
				sum, n = sum+x, n+1
			}
			if want := map[string]int{"map": 40, "interleave": 80}[name]; n != want || sum != 40*39 {
				t.Errorf("%d elements, %d in all", n, sum)
			}
			it.Close()
		})
	}
}
