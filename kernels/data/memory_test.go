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
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

const many = 1_000_000_000

// hoarders are pipelines that hold many elements of their input, by the op that does.
var hoarders = map[string]func(p *pipe) *pipe{
	"ShuffleDataset": func(p *pipe) *pipe { return p.op("ShuffleDataset", nil, i(many), i(1), i(2)) },
	"ShuffleDatasetV2": func(p *pipe) *pipe {
		return p.op("ShuffleDatasetV2", nil, i(many), seedsOf(p, "AnonymousRandomSeedGenerator", i(1), i(2)))
	},
	"ShuffleDatasetV3": func(p *pipe) *pipe {
		return p.op("ShuffleDatasetV3", nil, i(many), i(1), i(2), seedsOf(p, "AnonymousSeedGenerator", i(1), i(2), yes(true)))
	},
	"BatchDataset":   func(p *pipe) *pipe { return p.op("BatchDataset", nil, i(many)) },
	"BatchDatasetV2": func(p *pipe) *pipe { return p.op("BatchDatasetV2", nil, i(many), yes(false)) },
	"ParallelBatchDataset": func(p *pipe) *pipe {
		return p.op("ParallelBatchDataset", nil, i(many), i(2), yes(false))
	},
	"PaddedBatchDataset": func(p *pipe) *pipe {
		return p.op("PaddedBatchDataset", kt.Attrs{"Toutput_types": []tensor.DType{tensor.Int64}, "N": 1}, i(many), kt.I64(kt.S(0)), i(0))
	},
	"PaddedBatchDatasetV2": func(p *pipe) *pipe {
		return p.op("PaddedBatchDatasetV2", kt.Attrs{"Toutput_types": []tensor.DType{tensor.Int64}, "N": 1}, i(many), kt.I64(kt.S(0)), i(0), yes(false))
	},
	"CacheDataset":            func(p *pipe) *pipe { return p.op("CacheDataset", nil, kt.Str(nil, "")).op("SkipDataset", nil, i(many)) },
	"PrefetchDataset":         func(p *pipe) *pipe { return p.op("PrefetchDataset", nil, i(many)).op("SkipDataset", nil, i(many)) },
	"ShuffleAndRepeatDataset": func(p *pipe) *pipe { return p.op("ShuffleAndRepeatDataset", nil, i(many), i(1), i(2), i(2)) },
	"ShuffleAndRepeatDatasetV2": func(p *pipe) *pipe {
		return p.op("ShuffleAndRepeatDatasetV2", nil, i(many), i(1), i(2), i(2), seedsOf(p, "AnonymousSeedGenerator", i(1), i(2), yes(true)))
	},
	"MapAndBatchDataset": func(p *pipe) *pipe {
		return p.op("MapAndBatchDataset", calls("f", "double"), i(many), i(2), yes(false))
	},
	"DenseToSparseBatchDataset": func(p *pipe) *pipe { return p.op("DenseToSparseBatchDataset", nil, i(many), kt.I64(kt.S(0))) },
	"WindowDataset":             func(p *pipe) *pipe { return p.op("WindowDataset", nil, i(many), i(many), i(1), yes(false)) },
	"SlidingWindowDataset":      func(p *pipe) *pipe { return p.op("SlidingWindowDataset", nil, i(many), i(1), i(1)) },
	"UniqueDataset":             func(p *pipe) *pipe { return p.op("UniqueDataset", nil).op("SkipDataset", nil, i(many)) },
}

// seedsOf returns the handle of a generator of seeds.
func seedsOf(p *pipe, op string, inputs ...any) kernels.Value {
	out, err := p.d.Try(kt.Op{Type: op, Outputs: 2}, inputs...)
	if err != nil {
		p.err = err
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
			p := hoard(newPipe(d).numbers(1 << 60))
			it := p.iterate(t)
			defer p.now.Release()
			defer it.close()
			if got := it.next(); got != fmt.Sprint(status.ResourceExhausted) {
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
