package all_test

import (
	"testing"
	"time"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

func BenchmarkArray(b *testing.B) {
	big := kt.Iota[float32](tensor.Float32, kt.S(1000, 1000))
	rows := make([]int32, 4096)
	for i := range rows {
		rows[i] = int32(i * 7 % 1000)
	}
	masks := kt.Attrs{"shrink_axis_mask": 1}
	for _, c := range []struct {
		name, op string
		attrs    kt.Attrs
		inputs   []*tensor.Tensor
	}{
		{"small", "Shape", nil, out(kt.F32(kt.S(2), 1, 2))},
		{"small", "Reshape", nil, out(kt.F32(kt.S(2), 1, 2), kt.I32(kt.S(2), 1, -1))},
		{"element", "StridedSlice", masks, out(kt.I32(kt.S(3), 1, 2, 3), kt.I32(kt.S(1), 1), kt.I32(kt.S(1), 2), kt.I32(kt.S(1), 1))},
		{"scalars", "Pack", nil, out(kt.I32(nil, 1), kt.I32(nil, 2))},
		{"scalars", "ConcatV2", nil, out(kt.I32(kt.S(1), 1), kt.I32(kt.S(1), 2), kt.I32(nil, 0))},
		{"1e6", "Transpose", nil, out(big, kt.I32(kt.S(2), 1, 0))},
		{"1e6", "ReverseV2", nil, out(big, kt.I32(kt.S(1), 1))},
		{"2x1e6", "ConcatV2", nil, out(big, big, kt.I32(nil, 1))},
		{"2x1e6", "Pack", kt.Attrs{"axis": 2}, out(big, big)},
		{"1e6", "Tile", nil, out(kt.Iota[float32](tensor.Float32, kt.S(1000, 10)), kt.I32(kt.S(2), 1, 100))},
		{"1e6", "BroadcastTo", nil, out(kt.Iota[float32](tensor.Float32, kt.S(1000, 1)), kt.I32(kt.S(2), 1000, 1000))},
		{"1e6", "Pad", nil, out(big, kt.I32(kt.S(2, 2), 1, 1, 1, 1))},
		{"4096x1000", "GatherV2", nil, out(big, kt.I32(kt.S(4096), rows...), kt.I32(nil, 0))},
		{"columns", "Slice", nil, out(big, kt.I32(kt.S(2), 0, 100), kt.I32(kt.S(2), 1000, 500))},
		{"1e6", "OneHot", nil, out(kt.I32(kt.S(1000), rows[:1000]...), kt.I32(nil, 1000), kt.F32(nil, 1), kt.F32(nil, 0))},
	} {
		b.Run(c.op+"/"+c.name, func(b *testing.B) {
			d := kt.NewDevice(b)
			var like []any
			for _, t := range c.inputs {
				like = append(like, t)
			}
			k, err := d.Kernel(kt.Op{Type: c.op, Attrs: c.attrs, Outputs: 1}, like...)
			if err != nil {
				b.Fatal(err)
			}
			impl := k.Impl().(kernels.Kernel)
			ctx := &kernels.Context{Node: k.Node, Device: d, Step: k.Step, Inputs: make([]kernels.Value, len(c.inputs)), Outputs: make([]kernels.Value, 1)}
			b.ReportAllocs()
			least := time.Hour
			for b.Loop() {
				start := time.Now()
				for i, t := range c.inputs {
					ctx.Inputs[i].Tensor = t.Retain()
				}
				if err := impl.Compute(ctx); err != nil {
					b.Fatal(err)
				}
				for i := range ctx.Inputs {
					ctx.Inputs[i].Release()
				}
				ctx.Outputs[0].Release()
				least = min(least, time.Since(start))
			}
			// The minimum is least affected by other work on the machine.
			b.ReportMetric(float64(least.Nanoseconds()), "min-ns")
		})
	}
}
