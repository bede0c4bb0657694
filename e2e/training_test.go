//go:build unix

package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/graph/train"
)

// sines returns the initial values of programs/optimizers.py.
func sines(seed float64, sizes ...int64) *tensor.Tensor {
	shape := tensor.Shape(sizes)
	v := make([]float32, shape.Elements())
	for i := range v {
		v[i] = float32(math.Sin(float64(i)*0.37 + seed))
	}
	t, err := tensor.FromSlice(tensor.Float32, shape, v)
	if err != nil {
		panic(err)
	}
	return t
}

// trained is the result of a training: the loss before each step, and the moving average of a variable.
type trained struct{ Losses, Average []float32 }

// trainInGo trains the model of programs/optimizers.py.
func trainInGo(t *testing.T, target, which string, steps int) (out trained) {
	t.Helper()
	s := op.NewScope()
	ps := s.WithDevice("/job:ps/task:0")
	variable := func(name string, seed float64, sizes ...int64) *op.Variable {
		return op.NewVariable(ps.WithName(name), op.Const(ps, sines(seed, sizes...)))
	}
	table, hidden, offset := variable("table", 1, 6, 4), variable("hidden", 2, 4, 5), variable("offset", 3, 5)
	output, scale := variable("output", 4, 5, 1), variable("scale", 5)
	step := train.NewGlobalStep(ps)

	rows := table.Gather(s, op.Const(s, []int32{0, 2, 2, 5, 3, 0}))
	layer := op.Tanh(s, op.BiasAdd(s, op.MatMul(s, rows, hidden.Read(s)), offset.Read(s)))
	guess := op.Mul(s, op.MatMul(s, layer, output.Read(s)), scale.Read(s))
	loss := op.Mean(s, op.SquaredDifference(s, guess, op.Const(s, sines(6, 6, 1))), op.Const(s, []int32{0, 1}))

	opts := []train.Option{train.Counting(step)}
	var by train.Optimizer
	const rate = 0.05
	switch which {
	case "sgd":
		by = train.NewSGD(rate)
	case "schedule":
		by = train.NewSGD(op.RealDiv(s, op.Const(s, float32(0.5)), op.Cast(s, op.AddV2(s, step.Read(s), op.Const(s, int64(2))), tensor.Float32)))
	case "momentum":
		by = train.NewMomentum(rate, 0.9)
	case "nesterov":
		m := train.NewMomentum(rate, 0.9)
		m.Nesterov, by = true, m
	case "adagrad":
		by = train.NewAdagrad(rate)
	case "rmsprop":
		r := train.NewRMSProp(rate)
		r.Momentum, by = 0.5, r
	case "centered":
		r := train.NewRMSProp(rate)
		r.Centered, r.Epsilon, by = true, 1e-3, r
	case "adam":
		by = train.NewAdam(rate)
	case "adamw":
		a := train.NewAdamW(rate)
		a.Decay, by = 0.1, a
	case "ftrl":
		f := train.NewFTRL(rate)
		f.L1, f.L2, by = 0.01, 0.02, f
	case "ftrl2":
		f := train.NewFTRL(rate)
		f.Shrinkage, by = 0.02, f
	case "clipped":
		by = train.NewAdam(rate)
		opts = append(opts, train.Clipped(0.1))
	}
	averages := train.NewAverages(s, 0.7, hidden)
	updated := train.Minimize(s, by, loss, opts...)
	averaged := averages.Update(s.WithControlDependencies(updated))
	average := averages.Of(hidden).Read(s)
	count := step.Read(s)
	initialize := op.Initialize(s)
	for _, v := range s.Variables() {
		if device := s.Operation(v.Name()).Device(); device != "/job:ps/task:0" {
			t.Errorf("variable %s is on %q", v.Name(), device)
		}
	}
	def, err := s.GraphDef()
	if err != nil {
		t.Fatal(err)
	}

	ctx := t.Context()
	client, err := troupe.Dial(ctx, target)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := client.Close(ctx); err != nil {
			t.Error(err)
		}
	}()
	defer func() {
		if err := client.Reset(ctx); err != nil { // Python begins without variables, too
			t.Error(err)
		}
	}()
	sess, err := client.NewSession(ctx, def, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := sess.Close(ctx); err != nil {
			t.Error(err)
		}
	}()
	do := func(o *op.Operation) {
		t.Helper()
		if _, err := sess.Eval(ctx, nil, o); err != nil {
			t.Fatal(err)
		}
	}
	do(initialize)
	for range steps {
		value, err := troupe.Fetch[float32](ctx, sess, nil, loss)
		if err != nil {
			t.Fatal(err)
		}
		out.Losses = append(out.Losses, value)
		do(averaged)
	}
	if n, err := troupe.Fetch[int64](ctx, sess, nil, count); err != nil || n != int64(steps) {
		t.Errorf("the global step is %d after %d steps, %v", n, steps, err)
	}
	end, err := sess.Eval(ctx, nil, average)
	if err != nil {
		t.Fatal(err)
	}
	defer end[0].Release()
	out.Average = slices.Clone(tensor.Of[float32](end[0]))
	return out
}

// TestOptimizers trains the same model with the same optimizer in Go and in Python, on the same servers: the losses and the moving average
// are the same.
func TestOptimizers(t *testing.T) {
	t.Parallel()
	needPython(t)
	c := newCluster(t, "ps=1,worker=1")
	d := drivers.borrow(t)
	const steps = 12
	for _, which := range []string{"sgd", "schedule", "momentum", "nesterov", "adagrad", "rmsprop", "centered", "adam", "adamw", "ftrl", "ftrl2", "clipped"} {
		t.Run(which, func(t *testing.T) {
			got := trainInGo(t, c.task("worker", 0).target(), which, steps)
			var want trained
			line := program(t, d, "optimizers.py", c.task("worker", 0).target(), which, fmt.Sprint(steps))
			if err := json.Unmarshal([]byte(line), &want); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			same := func(what string, got, want []float32) {
				if len(got) != len(want) {
					t.Fatalf("%s: %v and %v", what, got, want)
				}
				for i := range want {
					if diff := math.Abs(float64(got[i] - want[i])); diff > 1e-5*max(1, math.Abs(float64(want[i]))) || diff != diff {
						t.Errorf("%s %d: %v in Go, %v in Python", what, i, got[i], want[i])
					}
				}
			}
			same("loss", got.Losses, want.Losses)
			same("average", got.Average, want.Average)
			if which != "schedule" && got.Losses[steps-1] >= got.Losses[0] {
				t.Errorf("it did not learn: %v", got.Losses)
			}
		})
	}
}
