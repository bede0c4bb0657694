package control_test

import (
	"testing"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	_ "github.com/troupe-run/troupe/kernels/all"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

func scalarOf(v kernels.Value) int32 { return tensor.Of[int32](v.Tensor)[0] }

func int32s(values ...int32) []kernels.Value {
	out := make([]kernels.Value, len(values))
	for i, v := range values {
		out[i].Tensor = kt.I32(nil, v)
	}
	return out
}

var functions = kt.Library{
	"inc": func(_ *kernels.Step, args []kernels.Value, done func([]kernels.Value, error)) {
		out := int32s(scalarOf(args[0]) + 1)
		args[0].Release()
		done(out, nil)
	},
	"incElsewhere": func(_ *kernels.Step, args []kernels.Value, done func([]kernels.Value, error)) {
		go func() {
			out := int32s(scalarOf(args[0]) + 1)
			args[0].Release()
			done(out, nil)
		}()
	},
	"neg": func(_ *kernels.Step, args []kernels.Value, done func([]kernels.Value, error)) {
		out := int32s(-scalarOf(args[0]))
		args[0].Release()
		done(out, nil)
	},
	"less10000": func(_ *kernels.Step, args []kernels.Value, done func([]kernels.Value, error)) {
		out := []kernels.Value{{Tensor: kt.Bool(nil, scalarOf(args[0]) < 10000)}}
		args[0].Release()
		done(out, nil)
	},
	"forever": func(step *kernels.Step, args []kernels.Value, done func([]kernels.Value, error)) {
		if scalarOf(args[0]) == 5 {
			step.Cancellation.Cancel(status.New(status.Internal, "boom"))
		}
		args[0].Release()
		done([]kernels.Value{{Tensor: kt.Bool(nil, true)}}, nil)
	},
	"two": func(_ *kernels.Step, args []kernels.Value, done func([]kernels.Value, error)) {
		args[0].Release()
		done(int32s(1, 2), nil)
	},
	"fail": func(_ *kernels.Step, args []kernels.Value, done func([]kernels.Value, error)) {
		args[0].Release()
		done(nil, status.New(status.DataLoss, "lost"))
	},
}

func TestFunctions(t *testing.T) {
	d := kt.NewDevice(t)
	f := func(name string) kt.Func { return kt.Func{Name: name, Attrs: kt.Attrs{}} }
	op := func(op string, attrs kt.Attrs) kt.Op {
		return kt.Op{Type: op, Attrs: attrs, Outputs: 1, Functions: functions}
	}
	run := func(want int32, op kt.Op, inputs ...any) {
		t.Helper()
		kt.Expect(t, d.Run(t, op, inputs...), kt.I32(nil, want))
	}
	run(4, op("PartitionedCall", kt.Attrs{"f": f("inc")}), kt.I32(nil, 3))
	run(4, op("StatefulPartitionedCall", kt.Attrs{"f": f("incElsewhere")}), kt.I32(nil, 3))
	branches := kt.Attrs{"then_branch": f("inc"), "else_branch": f("neg")}
	run(4, op("If", branches), kt.Bool(nil, true), kt.I32(nil, 3))
	run(-3, op("If", branches), kt.F32(nil, 0), kt.I32(nil, 3))
	run(-3, op("StatelessIf", branches), kt.Str(nil, ""), kt.I32(nil, 3))
	run(4, op("If", branches), kt.I32(kt.S(1), 0), kt.I32(nil, 3))
	cases := kt.Attrs{"branches": []kt.Func{f("inc"), f("neg")}}
	run(4, op("Case", cases), kt.I32(nil, 0), kt.I32(nil, 3))
	run(-3, op("StatelessCase", cases), kt.I32(nil, 7), kt.I32(nil, 3))
	for _, body := range []string{"inc", "incElsewhere"} {
		run(10000, op("While", kt.Attrs{"cond": f("less10000"), "body": f(body)}), kt.I32(nil, 0))
	}
	run(10001, op("StatelessWhile", kt.Attrs{"cond": f("less10000"), "body": f("inc")}), kt.I32(nil, 10001))

	kt.Fails(t, d, status.Cancelled, "boom", op("While", kt.Attrs{"cond": f("forever"), "body": f("inc")}), kt.I32(nil, 0))
	kt.Fails(t, d, status.DataLoss, "lost", op("While", kt.Attrs{"cond": f("less10000"), "body": f("fail")}), kt.I32(nil, 0))
	kt.Fails(t, d, status.DataLoss, "lost", op("While", kt.Attrs{"cond": f("fail"), "body": f("inc")}), kt.I32(nil, 0))
	kt.Fails(t, d, status.InvalidArgument, "While loop body returned 2 arguments. Expected: 1", op("While", kt.Attrs{"cond": f("less10000"), "body": f("two")}), kt.I32(nil, 0))
	kt.Fails(t, d, status.InvalidArgument, "got 2 tensors", op("While", kt.Attrs{"cond": f("two"), "body": f("inc")}), kt.I32(nil, 0))
	kt.Fails(t, d, status.Internal, "Expect to produce 1 tensors, but only get 2", op("PartitionedCall", kt.Attrs{"f": f("two")}), kt.I32(nil, 0))
	kt.Fails(t, d, status.NotFound, "nowhere", op("PartitionedCall", kt.Attrs{"f": f("nowhere")}), kt.I32(nil, 0))
	kt.Fails(t, d, status.InvalidArgument, "complex64 cannot be converted", op("If", branches), kt.Of[complex64](tensor.Complex64, nil, 1), kt.I32(nil, 3))
	kt.Expect(t, d.Run(t, op("FakeParam", kt.Attrs{"dtype": tensor.Int32, "shape": kt.S(-1, 2)})), kt.I32(kt.S(0, 2)))
}

func BenchmarkWhile(b *testing.B) {
	d := kt.NewDevice(b)
	k, err := d.Kernel(kt.Op{Type: "While", Outputs: 1, Functions: functions,
		Attrs: kt.Attrs{"cond": kt.Func{Name: "less10000"}, "body": kt.Func{Name: "inc"}}})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		out, err := k.Try(kernels.Value{Tensor: kt.I32(nil, 0)})
		if err != nil {
			b.Fatal(err)
		}
		out[0].Release()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/10000, "ns/iteration")
}
