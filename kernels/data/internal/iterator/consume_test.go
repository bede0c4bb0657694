package iterator_test

import (
	"testing"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/kernels"
	dt "github.com/troupe-run/troupe/kernels/data/internal/datatest"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

func TestReduceAndSingleElement(t *testing.T) {
	d := kt.NewDevice(t)
	dt.FunctionDevice = d
	p := dt.NewPipe(d).Numbers(5)
	attrs := p.Attrs(dt.Reducing("sum"))
	kt.Expect(t, d.Run(t, kt.Op{Type: "ReduceDataset", Attrs: attrs, Functions: dt.Functions, Step: kt.NewStep()}, p.Now, dt.Int(100)), dt.Int(110))
	p = dt.NewPipe(d).Numbers(2)
	kt.Fails(t, d, status.InvalidArgument, "more than one element", kt.Op{Type: "DatasetToSingleElement", Attrs: p.Attrs(nil)}, p.Now)
	p = dt.NewPipe(d).Numbers(0)
	kt.Fails(t, d, status.InvalidArgument, "Dataset was empty", kt.Op{Type: "DatasetToSingleElement", Attrs: p.Attrs(nil)}, p.Now)
	p = dt.NewPipe(d).Numbers(9).Op("SkipDataset", nil, dt.Int(2)).Op("ShardDataset", nil, dt.Int(2), dt.Int(1)).Mapped("double")
	kt.Fails(t, d, status.FailedPrecondition, "unknown cardinality", kt.Op{Type: "GetElementAtIndex", Attrs: p.Attrs(nil)}, p.Now, dt.Int(2))
	p = dt.NewPipe(d).Numbers(9).Op("SkipDataset", nil, dt.Int(2)).Op("ShardDataset", nil, dt.Int(2), dt.Int(1))
	kt.Expect(t, d.Run(t, kt.Op{Type: "GetElementAtIndex", Attrs: p.Attrs(nil)}, dt.Retained(p.Now), dt.Int(2)), dt.Int(7))
	kt.Fails(t, d, status.OutOfRange, "Index out of range [0, 3):3", kt.Op{Type: "GetElementAtIndex", Attrs: p.Attrs(nil)}, p.Now, dt.Int(3))
	p = dt.NewPipe(d).Numbers(5).Op("AssertCardinalityDataset", nil, dt.Int(10))
	kt.Fails(t, d, status.FailedPrecondition, "expected to contain 10 elements but index 5", kt.Op{Type: "GetElementAtIndex", Attrs: p.Attrs(nil)}, p.Now, dt.Int(5))
}

// TestCardinalityOptions checks that the elements of flat maps are counted only if a client requests it, or an index needs it.
func TestCardinalityOptions(t *testing.T) {
	const low, moderate = "\x08\x01", "\x08\x02"
	d := kt.NewDevice(t)
	dt.FunctionDevice = d
	count := func(p *dt.Pipe, options string) []kernels.Value {
		attrs := map[string]any{"cardinality_options": options}
		return d.Run(t, kt.Op{Type: "DatasetCardinality", Attrs: attrs, Functions: dt.Functions, Step: kt.NewStep()}, dt.Retained(p.Now))
	}
	for name, c := range map[string]struct {
		make            func() *dt.Pipe
		low, moderately int64
	}{
		"flat map":   {func() *dt.Pipe { return dt.NewPipe(d).Numbers(7).Op("FlatMapDataset", dt.Calls("f", "count")) }, -2, 9},
		"of nothing": {func() *dt.Pipe { return dt.NewPipe(d).Numbers(0).Op("FlatMapDataset", dt.Calls("f", "count")) }, -2, 0},
		"nested, then batch": {func() *dt.Pipe {
			return dt.NewPipe(d).Numbers(7).Op("FlatMapDataset", dt.Calls("f", "twice")).Op("FlatMapDataset", dt.Calls("f", "count")).Op("SkipDataset", nil, dt.Int(3))
		}, -2, 15},
		"whose function fails": {func() *dt.Pipe { return dt.NewPipe(d).Numbers(7).Op("FlatMapDataset", dt.Calls("f", "fail")) }, -2, -2},
		"without an end": {func() *dt.Pipe {
			return dt.NewPipe(d).Numbers(7).Op("RepeatDataset", nil, dt.Int(-1)).Op("FlatMapDataset", dt.Calls("f", "count"))
		}, -2, -2},
		"filter": {func() *dt.Pipe {
			return dt.NewPipe(d).Numbers(7).Op("FilterDataset", map[string]any{"predicate": dt.Calls("f", "even")["f"]})
		}, -2, -2},
		"range": {func() *dt.Pipe { return dt.NewPipe(d).Numbers(7) }, 7, 7},
	} {
		t.Run(name, func(t *testing.T) {
			p := c.make()
			if p.Err != nil {
				t.Fatal(p.Err)
			}
			for options, want := range map[string]int64{"": c.low, low: c.low} {
				kt.Expect(t, count(p, options), dt.Int(want))
			}
			kt.Expect(t, count(p, moderate), dt.Int(c.moderately))
			p.Now.Release()
		})
	}
	p := dt.NewPipe(d).Numbers(3)
	kt.Fails(t, d, status.InvalidArgument, "Could not parse cardinality_options", kt.Op{Type: "DatasetCardinality", Attrs: map[string]any{"cardinality_options": "\xff"}}, p.Now)
}
