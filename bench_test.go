package troupe

import (
	"testing"

	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/op/attr"
	"github.com/troupe-run/troupe/graph/shape"
	"github.com/troupe-run/troupe/graph/tensor"
	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// BenchmarkSteps measures small steps and large tensors, in the process and over the loopback interface.
func BenchmarkSteps(b *testing.B) {
	server, err := NewLocalServer(b.Context(), silent)
	if err != nil {
		b.Fatal(err)
	}
	client, err := Dial(b.Context(), server.Target())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := client.Close(b.Context()); err != nil {
			b.Error(err)
		}
		if err := server.Stop(b.Context()); err != nil {
			b.Error(err)
		}
	})
	s := op.NewScope()
	nothing := op.NoOp(s.WithName("nothing"))
	x := op.Placeholder(s.WithName("x"), tensor.Float32, attr.Shape(shape.Of()))
	sum := op.AddV2(s.WithName("sum"), x, x)
	vector := op.Placeholder(s.WithName("vector"), tensor.Float32)
	size := op.Size(s.WithName("size"), vector)
	kept := op.VariableV2(s.WithName("kept"), shape.Of(16<<20), tensor.Float32)
	keep := op.Assign(s.WithName("keep"), kept, vector).Op
	def, err := s.GraphDef()
	if err != nil {
		b.Fatal(err)
	}
	one := tensor.FromScalar(float32(1))
	defer one.Release()
	large, err := tensor.FromValues(make([]float32, 16<<20))
	if err != nil {
		b.Fatal(err)
	}
	defer large.Release()

	for _, m := range []struct {
		name string
		at   Master
	}{{"process", server}, {"network", client}} {
		session, err := m.at.NewSession(b.Context(), def, nil)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := session.Eval(b.Context(), Feeds{vector: large}, keep); err != nil {
			b.Fatal(err)
		}
		noOp, err := session.Prepare(b.Context(), nil, nothing)
		if err != nil {
			b.Fatal(err)
		}
		add, err := session.Prepare(b.Context(), []op.Output{x}, sum)
		if err != nil {
			b.Fatal(err)
		}
		feeds, feed, fetched := map[string]*tensor.Tensor{"x:0": one}, []*tensor.Tensor{one}, make([]*tensor.Tensor, 1)
		run := func(feeds map[string]*tensor.Tensor, fetches, targets []string) func() error {
			return func() error {
				out, err := session.Run(b.Context(), feeds, fetches, targets)
				for _, t := range out {
					t.Release()
				}
				return err
			}
		}
		for _, bench := range []struct {
			name  string
			bytes int64
			do    func() error
		}{
			{"no_op", 0, run(nil, nil, []string{"nothing"})},
			{"no_op callable", 0, func() error { return noOp.RunInto(b.Context(), nil, nil) }},
			{"fed_add", 0, run(feeds, []string{"sum:0"}, nil)},
			{"fed_add callable", 0, func() error {
				err := add.RunInto(b.Context(), fetched, feed)
				if err == nil {
					fetched[0].Release()
				}
				return err
			}},
			{"feed 64 MiB", 64 << 20, run(map[string]*tensor.Tensor{"vector:0": large}, []string{size.Name()}, nil)},
			{"fetch 64 MiB", 64 << 20, run(nil, []string{"kept:0"}, nil)},
		} {
			b.Run(m.name+"/"+bench.name, func(b *testing.B) {
				b.SetBytes(bench.bytes)
				b.ReportAllocs()
				for b.Loop() {
					if err := bench.do(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		if err := session.Close(b.Context()); err != nil {
			b.Error(err)
		}
	}
}

// BenchmarkTraces measures a step of two tasks without traces, with traces of other steps, and with its own.
func BenchmarkTraces(b *testing.B) {
	provider := sdk.NewTracerProvider(sdk.WithSampler(sdk.NeverSample()))
	recording := sdk.NewTracerProvider()
	for _, bench := range []struct {
		name string
		to   Option
	}{{"off", WithTraces(nil)}, {"of other steps", WithTraces(provider)}, {"on", WithTraces(recording)}} {
		b.Run(bench.name, func(b *testing.B) {
			c, err := NewLocalCluster(b.Context(), map[string]int{"ps": 1, "w": 1}, silent, bench.to)
			if err != nil {
				b.Fatal(err)
			}
			defer c.Stop(b.Context())
			s := op.NewScope()
			x := op.Placeholder(s.WithDevice("/job:w/task:0").WithName("x"), tensor.Float32)
			y := op.Neg(s.WithDevice("/job:ps/task:0"), x)
			def, err := s.GraphDef()
			if err != nil {
				b.Fatal(err)
			}
			session, err := c.Server("w", 0).NewSession(b.Context(), def, nil)
			if err != nil {
				b.Fatal(err)
			}
			step, err := session.Prepare(b.Context(), []op.Output{x}, y)
			if err != nil {
				b.Fatal(err)
			}
			one := tensor.FromScalar(float32(1))
			defer one.Release()
			feed, fetched := []*tensor.Tensor{one}, make([]*tensor.Tensor, 1)
			b.ReportAllocs()
			for b.Loop() {
				if err := step.RunInto(b.Context(), fetched, feed); err != nil {
					b.Fatal(err)
				}
				fetched[0].Release()
			}
		})
	}
}
