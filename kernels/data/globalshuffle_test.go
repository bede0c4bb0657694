package data_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/kernels"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

// asserted declares how many elements the dataset has.
func (p *pipe) asserted(n int64) *pipe { return p.op("AssertCardinalityDataset", nil, i(n)) }

// element describes an op's result: its number or numbers, or its error with the code.
func element(out []kernels.Value, err error) string {
	if err != nil {
		return status.CodeOf(err).String() + ": " + err.Error()
	}
	return told(out, nil)
}

// TestOrdersOfUnknownSize globally shuffles pipelines made from one of unknown cardinality, and requests an element from them. Only the
// shuffled dataset must know its cardinality, but so must each that is accessed by index. The results and texts are those of TensorFlow's
// server.
func TestOrdersOfUnknownSize(t *testing.T) {
	const short = "FAILED_PRECONDITION: Input dataset was expected to contain %s elements."
	doubles := func(n int64) func(p *pipe) *pipe { return func(p *pipe) *pipe { return p.numbers(n).mapped("double") } }
	for name, c := range map[string]struct {
		make     func(p *pipe) *pipe
		shuffled string // the elements in ascending order, or the error
		at       string // element 0, or the error
	}{
		"map":          {func(p *pipe) *pipe { return doubles(4)(p).asserted(4) }, "0 2 4 6", "Dataset of type MapDatasetOp::Dataset has unknown"},
		"parallel map": {func(p *pipe) *pipe { return p.numbers(4).ahead("double", 2).asserted(4) }, "0 2 4 6", "Dataset of type ParallelMapDatasetV2Op::Dataset has unknown"},
		"prefetch":     {func(p *pipe) *pipe { return doubles(4)(p).op("PrefetchDataset", nil, i(2)).asserted(4) }, "0 2 4 6", "Dataset of type MapDatasetOp::Dataset has unknown"},
		"options": {func(p *pipe) *pipe {
			return doubles(4)(p).op("OptionsDataset", kt.Attrs{"serialized_options": ""}).asserted(4)
		}, "0 2 4 6", "Dataset of type MapDatasetOp::Dataset has unknown"},
		"skip":                       {func(p *pipe) *pipe { return doubles(4)(p).op("SkipDataset", nil, i(1)).asserted(3) }, "2 4 6", "Dataset of type SkipDatasetOp::Dataset has unknown"},
		"take":                       {func(p *pipe) *pipe { return doubles(4)(p).op("TakeDataset", nil, i(3)).asserted(3) }, "0 2 4", "Dataset of type TakeDatasetOp::Dataset has unknown"},
		"shard":                      {func(p *pipe) *pipe { return doubles(4)(p).op("ShardDataset", nil, i(2), i(1)).asserted(2) }, "2 6", "Dataset of type ShardDatasetOp(2, 1)::Dataset has unknown"},
		"batch":                      {func(p *pipe) *pipe { return doubles(4)(p).batch(2, true).asserted(2) }, "[0,2] [4,6]", "Index out of range [0, -2):0"},
		"cache":                      {func(p *pipe) *pipe { return doubles(4)(p).op("CacheDataset", nil, kt.Str(nil, "")).asserted(4) }, "0 2 4 6", "0"},
		"repeat":                     {func(p *pipe) *pipe { return doubles(4)(p).op("RepeatDataset", nil, i(2)).asserted(8) }, strings.ReplaceAll(short, "%s", "8"), "Dataset of type RepeatDatasetOp::Dataset has unknown"},
		"repeat known":               {func(p *pipe) *pipe { return doubles(4)(p).asserted(4).op("RepeatDataset", nil, i(2)) }, "0 0 2 2 4 4 6 6", "Dataset of type MapDatasetOp::Dataset has unknown"},
		"too many":                   {func(p *pipe) *pipe { return doubles(4)(p).asserted(9) }, strings.ReplaceAll(short, "%s", "9"), "Dataset of type MapDatasetOp::Dataset has unknown"},
		"far too many batches":       {func(p *pipe) *pipe { return doubles(4)(p).batch(1<<60, true).asserted(1 << 62) }, "FAILED_PRECONDITION: Input dataset was expected to contain", "Index out of range [0, -2):0"},
		"far too many behind a skip": {func(p *pipe) *pipe { return doubles(4)(p).op("SkipDataset", nil, i(1<<62)).asserted(1<<63 - 1) }, "FAILED_PRECONDITION: Input dataset was expected to contain", "has unknown"},
		"far too many of a shard":    {func(p *pipe) *pipe { return doubles(4)(p).op("ShardDataset", nil, i(1<<40), i(0)).asserted(1 << 62) }, "FAILED_PRECONDITION: Input dataset was expected to contain", "has unknown"},
		"fewer":                      {func(p *pipe) *pipe { return doubles(4)(p).asserted(3) }, "0 2 4", "Dataset of type MapDatasetOp::Dataset has unknown"},
		"map that ends":              {func(p *pipe) *pipe { return p.numbers(9).mapped("stop").asserted(9) }, strings.ReplaceAll(short, "%s", "9"), "Dataset of type MapDatasetOp::Dataset has unknown"},
		"map that may not end": {func(p *pipe) *pipe {
			attrs := calls("f", "stop")
			attrs["preserve_cardinality"] = true
			return p.numbers(9).op("MapDataset", attrs)
		}, "INVALID_ARGUMENT: Function invocation produced OutOfRangeError: enough", "0"},
		"map that fails":     {func(p *pipe) *pipe { return p.numbers(6).mapped("fail").asserted(6) }, "INVALID_ARGUMENT: bad", "Dataset of type MapDatasetOp::Dataset has unknown"},
		"unknown":            {doubles(4), "INVALID_ARGUMENT: `global_shuffle` requires the input dataset to have a non-empty finite cardinality. Got cardinality -2 for dataset MapDatasetOp::Dataset", "has unknown"},
		"infinite assertion": {func(p *pipe) *pipe { return p.numbers(4).asserted(-1) }, "INVALID_ARGUMENT: `global_shuffle` requires the input dataset to have a non-empty finite cardinality. Got cardinality -1", "0"},
		"skip of all":        {func(p *pipe) *pipe { return p.numbers(4).op("SkipDataset", nil, i(-1)) }, "Got: FAILED_PRECONDITION: Global shuffling does not support empty dataset or skipping the entire dataset. Got skip(-1).", "Index out of range [0, 0):0"},
		"filter": {func(p *pipe) *pipe {
			return p.numbers(4).op("FilterDataset", calls("predicate", "even")).op("RepeatDataset", nil, i(-1))
		}, "Got: FAILED_PRECONDITION: FilterDataset does not support random access.", "has infinite"},
		"interleave": {func(p *pipe) *pipe {
			return p.numbers(4).op("InterleaveDataset", calls("f", "count"), i(2), i(1)).asserted(4)
		}, "Got: FAILED_PRECONDITION: InterleaveDataset does not support random access.", "not implemented for dataset InterleaveDatasetOp::Dataset"},
		"flat map": {func(p *pipe) *pipe { return p.numbers(4).op("FlatMapDataset", calls("f", "count")).asserted(4) }, "Got: UNIMPLEMENTED: Please consider applying maps", "not implemented for dataset FlatMapDatasetOp::Dataset"},
	} {
		t.Run(name, func(t *testing.T) {
			d := kt.NewDevice(t)
			functionDevice = d
			p := c.make(newPipe(d))
			out, err := d.Try(kt.Op{Type: "GetElementAtIndex", Attrs: p.attrs(nil), Functions: functions, Step: kt.NewStep()}, retained(p.now), i(0))
			if got := element(out, err); !strings.Contains(got, c.at) {
				t.Errorf("element 0 is %q, want %q", got, c.at)
			}
			var all []string
			p.op("GlobalShuffleDataset", nil, i(1), i(2), seedless(p))
			if p.err != nil {
				all = []string{element(nil, p.err)}
			} else {
				it := p.iterate(t)
				for {
					out, err := d.Try(kt.Op{Type: "IteratorGetNext", Attrs: p.attrs(nil), Step: kt.NewStep()}, retained(it.handle))
					if status.CodeOf(err) == status.OutOfRange {
						break
					}
					if all = append(all, element(out, err)); err != nil {
						all = all[len(all)-1:]
						break
					}
				}
				it.close()
				p.now.Release()
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
	shuffled := func(p *pipe, n int64) *pipe { return p.op("GlobalShuffleDataset", nil, i(0), i(n), seedless(p)) }
	for name, c := range map[string]struct {
		part func(p *pipe) *pipe
		want string
	}{
		"all":   {func(p *pipe) *pipe { return p }, "7 5 2 0 4 9 6 3 8 1 end"},
		"take":  {func(p *pipe) *pipe { return p.op("TakeDataset", nil, i(4)) }, "3 5 2 9 end"},
		"skip":  {func(p *pipe) *pipe { return p.op("SkipDataset", nil, i(6)) }, "1 7 8 6 end"},
		"shard": {func(p *pipe) *pipe { return p.op("ShardDataset", nil, i(2), i(1)) }, "5 1 0 3 7 end"},
		"shuffled take": {func(p *pipe) *pipe {
			return shuffled(p.op("TakeDataset", nil, i(6)), 7).op("TakeDataset", nil, i(3))
		}, "3 2 5 end"},
	} {
		t.Run(name, func(t *testing.T) {
			d := kt.NewDevice(t)
			p := shuffled(c.part(shuffled(newPipe(d).numbers(10), 42)), 42)
			it := p.iterate(t)
			first := it.next() + " " + it.next()
			state := it.save()
			rest := it.rest(20)
			if got := first + " " + rest; got != c.want {
				t.Errorf("the elements are %s, want %s", got, c.want)
			}
			if err := it.restore(state); err != nil {
				t.Fatal(err)
			}
			state.Release()
			if got := it.rest(20); got != rest {
				t.Errorf("restored, the rest is %s, want %s", got, rest)
			}
			it.close()
			p.now.Release()
		})
	}
}
