package selection_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/kernels"
	dt "github.com/troupe-run/troupe/kernels/data/internal/datatest"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

// element describes an op's result: its number or numbers, or its error with the code.
func element(out []kernels.Value, err error) string {
	if err != nil {
		return status.CodeOf(err).String() + ": " + err.Error()
	}
	return dt.Outcome(out, nil)
}

// TestOrdersOfUnknownSize globally shuffles pipelines made from one of unknown cardinality, and requests an element from them. Only the
// shuffled dataset must know its cardinality, but so must each that is accessed by index. The results and texts are those of TensorFlow's
// server.
func TestOrdersOfUnknownSize(t *testing.T) {
	const short = "FAILED_PRECONDITION: Input dataset was expected to contain %s elements."
	doubles := func(n int64) func(p *dt.Pipe) *dt.Pipe {
		return func(p *dt.Pipe) *dt.Pipe { return p.Numbers(n).Mapped("double") }
	}
	for name, c := range map[string]struct {
		make     func(p *dt.Pipe) *dt.Pipe
		shuffled string // the elements in ascending order, or the error
		at       string // element 0, or the error
	}{
		"map":          {func(p *dt.Pipe) *dt.Pipe { return doubles(4)(p).Asserted(4) }, "0 2 4 6", "Dataset of type MapDatasetOp::Dataset has unknown"},
		"parallel map": {func(p *dt.Pipe) *dt.Pipe { return p.Numbers(4).Ahead("double", 2).Asserted(4) }, "0 2 4 6", "Dataset of type ParallelMapDatasetV2Op::Dataset has unknown"},
		"prefetch":     {func(p *dt.Pipe) *dt.Pipe { return doubles(4)(p).Op("PrefetchDataset", nil, dt.Int(2)).Asserted(4) }, "0 2 4 6", "Dataset of type MapDatasetOp::Dataset has unknown"},
		"options": {func(p *dt.Pipe) *dt.Pipe {
			return doubles(4)(p).Op("OptionsDataset", kt.Attrs{"serialized_options": ""}).Asserted(4)
		}, "0 2 4 6", "Dataset of type MapDatasetOp::Dataset has unknown"},
		"skip": {func(p *dt.Pipe) *dt.Pipe { return doubles(4)(p).Op("SkipDataset", nil, dt.Int(1)).Asserted(3) }, "2 4 6", "Dataset of type SkipDatasetOp::Dataset has unknown"},
		"take": {func(p *dt.Pipe) *dt.Pipe { return doubles(4)(p).Op("TakeDataset", nil, dt.Int(3)).Asserted(3) }, "0 2 4", "Dataset of type TakeDatasetOp::Dataset has unknown"},
		"shard": {func(p *dt.Pipe) *dt.Pipe {
			return doubles(4)(p).Op("ShardDataset", nil, dt.Int(2), dt.Int(1)).Asserted(2)
		}, "2 6", "Dataset of type ShardDatasetOp(2, 1)::Dataset has unknown"},
		"batch":                {func(p *dt.Pipe) *dt.Pipe { return doubles(4)(p).Batch(2, true).Asserted(2) }, "[0,2] [4,6]", "Index out of range [0, -2):0"},
		"cache":                {func(p *dt.Pipe) *dt.Pipe { return doubles(4)(p).Op("CacheDataset", nil, kt.Str(nil, "")).Asserted(4) }, "0 2 4 6", "0"},
		"repeat":               {func(p *dt.Pipe) *dt.Pipe { return doubles(4)(p).Op("RepeatDataset", nil, dt.Int(2)).Asserted(8) }, strings.ReplaceAll(short, "%s", "8"), "Dataset of type RepeatDatasetOp::Dataset has unknown"},
		"repeat known":         {func(p *dt.Pipe) *dt.Pipe { return doubles(4)(p).Asserted(4).Op("RepeatDataset", nil, dt.Int(2)) }, "0 0 2 2 4 4 6 6", "Dataset of type MapDatasetOp::Dataset has unknown"},
		"too many":             {func(p *dt.Pipe) *dt.Pipe { return doubles(4)(p).Asserted(9) }, strings.ReplaceAll(short, "%s", "9"), "Dataset of type MapDatasetOp::Dataset has unknown"},
		"far too many batches": {func(p *dt.Pipe) *dt.Pipe { return doubles(4)(p).Batch(1<<60, true).Asserted(1 << 62) }, "FAILED_PRECONDITION: Input dataset was expected to contain", "Index out of range [0, -2):0"},
		"far too many behind a skip": {func(p *dt.Pipe) *dt.Pipe {
			return doubles(4)(p).Op("SkipDataset", nil, dt.Int(1<<62)).Asserted(1<<63 - 1)
		}, "FAILED_PRECONDITION: Input dataset was expected to contain", "has unknown"},
		"far too many of a shard": {func(p *dt.Pipe) *dt.Pipe {
			return doubles(4)(p).Op("ShardDataset", nil, dt.Int(1<<40), dt.Int(0)).Asserted(1 << 62)
		}, "FAILED_PRECONDITION: Input dataset was expected to contain", "has unknown"},
		"fewer":         {func(p *dt.Pipe) *dt.Pipe { return doubles(4)(p).Asserted(3) }, "0 2 4", "Dataset of type MapDatasetOp::Dataset has unknown"},
		"map that ends": {func(p *dt.Pipe) *dt.Pipe { return p.Numbers(9).Mapped("stop").Asserted(9) }, strings.ReplaceAll(short, "%s", "9"), "Dataset of type MapDatasetOp::Dataset has unknown"},
		"map that may not end": {func(p *dt.Pipe) *dt.Pipe {
			attrs := dt.Calls("f", "stop")
			attrs["preserve_cardinality"] = true
			return p.Numbers(9).Op("MapDataset", attrs)
		}, "INVALID_ARGUMENT: Function invocation produced OutOfRangeError: enough", "0"},
		"map that fails":     {func(p *dt.Pipe) *dt.Pipe { return p.Numbers(6).Mapped("fail").Asserted(6) }, "INVALID_ARGUMENT: bad", "Dataset of type MapDatasetOp::Dataset has unknown"},
		"unknown":            {doubles(4), "INVALID_ARGUMENT: `global_shuffle` requires the input dataset to have a non-empty finite cardinality. Got cardinality -2 for dataset MapDatasetOp::Dataset", "has unknown"},
		"infinite assertion": {func(p *dt.Pipe) *dt.Pipe { return p.Numbers(4).Asserted(-1) }, "INVALID_ARGUMENT: `global_shuffle` requires the input dataset to have a non-empty finite cardinality. Got cardinality -1", "0"},
		"skip of all":        {func(p *dt.Pipe) *dt.Pipe { return p.Numbers(4).Op("SkipDataset", nil, dt.Int(-1)) }, "Got: FAILED_PRECONDITION: Global shuffling does not support empty dataset or skipping the entire dataset. Got skip(-1).", "Index out of range [0, 0):0"},
		"filter": {func(p *dt.Pipe) *dt.Pipe {
			return p.Numbers(4).Op("FilterDataset", dt.Calls("predicate", "even")).Op("RepeatDataset", nil, dt.Int(-1))
		}, "Got: FAILED_PRECONDITION: FilterDataset does not support random access.", "has infinite"},
		"interleave": {func(p *dt.Pipe) *dt.Pipe {
			return p.Numbers(4).Op("InterleaveDataset", dt.Calls("f", "count"), dt.Int(2), dt.Int(1)).Asserted(4)
		}, "Got: FAILED_PRECONDITION: InterleaveDataset does not support random access.", "not implemented for dataset InterleaveDatasetOp::Dataset"},
		"flat map": {func(p *dt.Pipe) *dt.Pipe {
			return p.Numbers(4).Op("FlatMapDataset", dt.Calls("f", "count")).Asserted(4)
		}, "Got: UNIMPLEMENTED: Please consider applying maps", "not implemented for dataset FlatMapDatasetOp::Dataset"},
	} {
		t.Run(name, func(t *testing.T) {
			d := kt.NewDevice(t)
			dt.FunctionDevice = d
			p := c.make(dt.NewPipe(d))
			out, err := d.Try(kt.Op{Type: "GetElementAtIndex", Attrs: p.Attrs(nil), Functions: dt.Functions, Step: kt.NewStep()}, dt.Retained(p.Now), dt.Int(0))
			if got := element(out, err); !strings.Contains(got, c.at) {
				t.Errorf("element 0 is %q, want %q", got, c.at)
			}
			var all []string
			p.Op("GlobalShuffleDataset", nil, dt.Int(1), dt.Int(2), dt.Seedless(p))
			if p.Err != nil {
				all = []string{element(nil, p.Err)}
			} else {
				it := p.Iterate(t)
				for {
					out, err := d.Try(kt.Op{Type: "IteratorGetNext", Attrs: p.Attrs(nil), Step: kt.NewStep()}, dt.Retained(it.Handle))
					if status.CodeOf(err) == status.OutOfRange {
						break
					}
					if all = append(all, element(out, err)); err != nil {
						all = all[len(all)-1:]
						break
					}
				}
				it.Close()
				p.Now.Release()
			}
			slices.Sort(all)
			if got := strings.Join(all, " "); got != c.shuffled && (len(all) != 1 || !strings.Contains(got, c.shuffled)) {
				t.Errorf("shuffled it is\n%s, want\n%s", got, c.shuffled)
			}
		})
	}
}

// TestOrdersWithinOrders shuffles a part of a shuffled dataset. The part contains random elements: for equal seeds TensorFlow's elements in
// TensorFlow's order, even after the iterator was restored.
func TestOrdersWithinOrders(t *testing.T) {
	shuffled := func(p *dt.Pipe, n int64) *dt.Pipe {
		return p.Op("GlobalShuffleDataset", nil, dt.Int(0), dt.Int(n), dt.Seedless(p))
	}
	for name, c := range map[string]struct {
		part func(p *dt.Pipe) *dt.Pipe
		want string
	}{
		"all":   {func(p *dt.Pipe) *dt.Pipe { return p }, "7 5 2 0 4 9 6 3 8 1 end"},
		"take":  {func(p *dt.Pipe) *dt.Pipe { return p.Op("TakeDataset", nil, dt.Int(4)) }, "3 5 2 9 end"},
		"skip":  {func(p *dt.Pipe) *dt.Pipe { return p.Op("SkipDataset", nil, dt.Int(6)) }, "1 7 8 6 end"},
		"shard": {func(p *dt.Pipe) *dt.Pipe { return p.Op("ShardDataset", nil, dt.Int(2), dt.Int(1)) }, "5 1 0 3 7 end"},
		"shuffled take": {func(p *dt.Pipe) *dt.Pipe {
			return shuffled(p.Op("TakeDataset", nil, dt.Int(6)), 7).Op("TakeDataset", nil, dt.Int(3))
		}, "3 2 5 end"},
	} {
		t.Run(name, func(t *testing.T) {
			d := kt.NewDevice(t)
			p := shuffled(c.part(shuffled(dt.NewPipe(d).Numbers(10), 42)), 42)
			it := p.Iterate(t)
			first := it.Next() + " " + it.Next()
			state := it.Save()
			rest := it.Rest(20)
			if got := first + " " + rest; got != c.want {
				t.Errorf("the elements are %s, want %s", got, c.want)
			}
			if err := it.Restore(state); err != nil {
				t.Fatal(err)
			}
			state.Release()
			if got := it.Rest(20); got != rest {
				t.Errorf("restored, the rest is %s, want %s", got, rest)
			}
			it.Close()
			p.Now.Release()
		})
	}
}
