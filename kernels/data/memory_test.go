package data_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/data"
	dt "github.com/troupe-run/troupe/kernels/data/internal/datatest"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

const many = 1_000_000_000

// hoarders are pipelines that hold many elements of their input, by the op that does.
var hoarders = map[string]func(p *dt.Pipe) *dt.Pipe{
	"ShuffleDataset": func(p *dt.Pipe) *dt.Pipe { return p.Op("ShuffleDataset", nil, dt.Int(many), dt.Int(1), dt.Int(2)) },
	"ShuffleDatasetV2": func(p *dt.Pipe) *dt.Pipe {
		return p.Op("ShuffleDatasetV2", nil, dt.Int(many), seedsOf(p, "AnonymousRandomSeedGenerator", dt.Int(1), dt.Int(2)))
	},
	"ShuffleDatasetV3": func(p *dt.Pipe) *dt.Pipe {
		return p.Op("ShuffleDatasetV3", nil, dt.Int(many), dt.Int(1), dt.Int(2), seedsOf(p, "AnonymousSeedGenerator", dt.Int(1), dt.Int(2), dt.Bool(true)))
	},
	"BatchDataset":   func(p *dt.Pipe) *dt.Pipe { return p.Op("BatchDataset", nil, dt.Int(many)) },
	"BatchDatasetV2": func(p *dt.Pipe) *dt.Pipe { return p.Op("BatchDatasetV2", nil, dt.Int(many), dt.Bool(false)) },
	"ParallelBatchDataset": func(p *dt.Pipe) *dt.Pipe {
		return p.Op("ParallelBatchDataset", nil, dt.Int(many), dt.Int(2), dt.Bool(false))
	},
	"PaddedBatchDataset": func(p *dt.Pipe) *dt.Pipe {
		return p.Op("PaddedBatchDataset", kt.Attrs{"Toutput_types": []tensor.DType{tensor.Int64}, "N": 1}, dt.Int(many), kt.I64(kt.S(0)), dt.Int(0))
	},
	"PaddedBatchDatasetV2": func(p *dt.Pipe) *dt.Pipe {
		return p.Op("PaddedBatchDatasetV2", kt.Attrs{"Toutput_types": []tensor.DType{tensor.Int64}, "N": 1}, dt.Int(many), kt.I64(kt.S(0)), dt.Int(0), dt.Bool(false))
	},
	"CacheDataset": func(p *dt.Pipe) *dt.Pipe {
		return p.Op("CacheDataset", nil, kt.Str(nil, "")).Op("SkipDataset", nil, dt.Int(many))
	},
	"PrefetchDataset": func(p *dt.Pipe) *dt.Pipe {
		return p.Op("PrefetchDataset", nil, dt.Int(many)).Op("SkipDataset", nil, dt.Int(many))
	},
	"ShuffleAndRepeatDataset": func(p *dt.Pipe) *dt.Pipe {
		return p.Op("ShuffleAndRepeatDataset", nil, dt.Int(many), dt.Int(1), dt.Int(2), dt.Int(2))
	},
	"ShuffleAndRepeatDatasetV2": func(p *dt.Pipe) *dt.Pipe {
		return p.Op("ShuffleAndRepeatDatasetV2", nil, dt.Int(many), dt.Int(1), dt.Int(2), dt.Int(2), seedsOf(p, "AnonymousSeedGenerator", dt.Int(1), dt.Int(2), dt.Bool(true)))
	},
	"MapAndBatchDataset": func(p *dt.Pipe) *dt.Pipe {
		return p.Op("MapAndBatchDataset", dt.Calls("f", "double"), dt.Int(many), dt.Int(2), dt.Bool(false))
	},
	"DenseToSparseBatchDataset": func(p *dt.Pipe) *dt.Pipe {
		return p.Op("DenseToSparseBatchDataset", nil, dt.Int(many), kt.I64(kt.S(0)))
	},
	"WindowDataset": func(p *dt.Pipe) *dt.Pipe {
		return p.Op("WindowDataset", nil, dt.Int(many), dt.Int(many), dt.Int(1), dt.Bool(false))
	},
	"SlidingWindowDataset": func(p *dt.Pipe) *dt.Pipe {
		return p.Op("SlidingWindowDataset", nil, dt.Int(many), dt.Int(1), dt.Int(1))
	},
	"UniqueDataset": func(p *dt.Pipe) *dt.Pipe { return p.Op("UniqueDataset", nil).Op("SkipDataset", nil, dt.Int(many)) },
}

// seedsOf returns the handle of a generator of seeds.
func seedsOf(p *dt.Pipe, op string, inputs ...any) kernels.Value {
	out, err := p.Device.Try(kt.Op{Type: op, Outputs: 2}, inputs...)
	if err != nil {
		p.Err = err
		return kernels.Value{}
	}
	out[1].Release()
	return out[0]
}

// TestSmallElementsAreCounted checks that pipelines that hold many of the smallest elements reach the limit of their session.
func TestSmallElementsAreCounted(t *testing.T) {
	for name, hoard := range hoarders {
		t.Run(name, func(t *testing.T) {
			d := kt.NewDevice(t)
			d.Limit(tensor.NewQuota(1<<20, "session", "--session-memory raises it"))
			p := hoard(dt.NewPipe(d).Numbers(1 << 60))
			it := p.Iterate(t)
			defer p.Now.Release()
			defer it.Close()
			if got := it.Next(); got != fmt.Sprint(status.ResourceExhausted) {
				t.Errorf("got %s", got)
			}
		})
	}
}

// sizes are names of inputs that say how many elements a dataset holds.
var sizes = regexp.MustCompile(`^(buffer_size|batch_size|size|window_size)$`)

// TestHoardersAreListed checks that each dataset with a size has a case above, or says here why it needs none.
func TestHoardersAreListed(t *testing.T) {
	for _, name := range data.Table().Ops() {
		def, err := graph.LookupOp(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, in := range def.GetInputArg() {
			if sizes.MatchString(in.GetName()) && hoarders[strings.TrimPrefix(name, "Experimental")] == nil && bounded[name] == "" {
				t.Errorf("%s holds elements, and no case has it", name)
			}
		}
	}
}

// bounded are the other datasets with sizes, and why they need no case.
var bounded = map[string]string{
	"CSVDataset": files, "CSVDatasetV2": files, "ExperimentalCSVDataset": files, "FixedLengthRecordDataset": files, "FixedLengthRecordDatasetV2": files,
	"TFRecordDataset": files, "TFRecordDatasetV2": files, "TextLineDataset": files,
}

const files = "it is the size of the buffer of a file, which is not made larger than ours"
