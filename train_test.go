package troupe

import (
	"errors"
	"iter"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/op/attr"
	"github.com/troupe-run/troupe/graph/shape"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// countdown is a graph whose step subtracts a fed number from a variable. The variable begins at 100, and is the loss.
type countdown struct {
	session *Session
	left    *op.Variable
	less    op.Output
	saver   *Saver
	Training
}

func newCountdown(t *testing.T, server *Server) *countdown {
	t.Helper()
	s := op.NewScope()
	c := &countdown{}
	c.left = op.NewVariable(s.WithName("left"), op.Const(s, float32(100)))
	c.less = op.Placeholder(s, tensor.Float32, attr.Shape(shape.Scalar()))
	c.Step = c.left.AssignSub(s, c.less)
	c.Loss = c.left.Read(s.WithControlDependencies(c.Step))
	c.Init = op.Initialize(s)
	c.saver = NewSaver(s)
	def, err := s.GraphDef()
	if err != nil {
		t.Fatal(err)
	}
	if c.session, err = server.NewSession(t.Context(), def, nil); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *countdown) ones(n int, end error) iter.Seq2[Feeds, error] {
	return func(yield func(Feeds, error) bool) {
		for range n {
			if !yield(Feeds{c.less: float32(1)}, nil) {
				return
			}
		}
		if end != nil {
			yield(nil, end)
		}
	}
}

// A training resumes from its last checkpoint, whatever values the variables have, and keeps the right number of
// checkpoints.
func TestTrainingGoesOn(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run[1]")
	for run, want := range []Progress{{Step: 10, Loss: 90}, {Step: 20, Loss: 80}, {Step: 25, Loss: 75}, {Step: 25, Loss: math.NaN()}} {
		c := newCountdown(t, localServer(t))
		c.Batches, c.Steps = c.ones(10, nil), 25
		c.Saver, c.Checkpoints = c.saver, Checkpoints{Prefix: filepath.Join(dir, "model"), Keep: 2}
		p, err := Train(t.Context(), c.session, c.Training)
		if err != nil || p.Step != want.Step || p.Loss != want.Loss && !(math.IsNaN(p.Loss) && math.IsNaN(want.Loss)) {
			t.Errorf("run %d: %+v, %v, want %+v", run, p, err, want)
		}
	}
	var names []string
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if want := []string{"checkpoint", "model-20.data-00000-of-00001", "model-20.index", "model-25.data-00000-of-00001", "model-25.index"}; !slices.Equal(names, want) {
		t.Errorf("the directory has %v", names)
	}
	state, err := os.ReadFile(filepath.Join(dir, "checkpoint"))
	if err != nil || string(state) != "model_checkpoint_path: \"model-25\"\nall_model_checkpoint_paths: \"model-20\"\nall_model_checkpoint_paths: \"model-25\"\n" {
		t.Errorf("%s, %v", state, err)
	}
}

func TestTrainingEnds(t *testing.T) {
	torn := errors.New("the data is torn")
	for _, c := range []struct {
		name   string
		change func(*countdown)
		step   int64
		want   error
	}{
		{"with its batches", func(c *countdown) { c.Batches = c.ones(3, nil) }, 3, nil},
		{"with an error of its batches", func(c *countdown) { c.Batches = c.ones(3, torn) }, 3, torn},
		{"when it is told", func(c *countdown) {
			c.Each = func(p Progress) error {
				if p.Step == 7 {
					return ErrStop
				}
				return nil
			}
		}, 7, nil},
		{"with an error of who is told", func(c *countdown) { c.Each = func(Progress) error { return torn } }, 1, torn},
		{"when the loss falls no more", func(c *countdown) {
			c.Batches = func(yield func(Feeds, error) bool) {
				for i := 0; yield(Feeds{c.less: float32(max(0, 5-i))}, nil); i++ {
				}
			}
			c.Each = EarlyStop(4, 0.5)
		}, 5 + 4, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newCountdown(t, localServer(t))
			d.Batches = d.ones(50, nil)
			c.change(d)
			p, err := Train(t.Context(), d.session, d.Training)
			if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) || p.Step != c.step {
				t.Errorf("%+v, %v", p, err)
			}
		})
	}
	t.Run("when the loss is no number", func(t *testing.T) {
		d := newCountdown(t, localServer(t))
		d.Batches = func(yield func(Feeds, error) bool) { yield(Feeds{d.less: float32(math.NaN())}, nil) }
		d.Each = EarlyStop(1, 0)
		if _, err := Train(t.Context(), d.session, d.Training); err == nil || !strings.Contains(err.Error(), "step 1 is not a number") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("without a step", func(t *testing.T) {
		d := newCountdown(t, localServer(t))
		if _, err := Train(t.Context(), d.session, Training{}); status.CodeOf(err) != status.InvalidArgument {
			t.Errorf("error %v", err)
		}
	})
}
