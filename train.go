package troupe

import (
	"context"
	"errors"
	"iter"
	"math"
	"time"

	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// Training is a loop over batches that runs an optimizer's step for each. Only Step is required.
type Training struct {
	// Step is the operation to run for each batch, such as the one that graph/train.Minimize returns.
	Step *op.Operation
	// Loss is a float scalar that is fetched with each step, for Progress.
	Loss op.Output
	// Init runs first if no checkpoint is restored: op.Initialize of the graph, in the chief of a cluster.
	Init *op.Operation
	// Batches are the feeds of the steps. Training ends after the last batch, or with the first error. If Batches is
	// nil, steps are fed nothing.
	Batches iter.Seq2[Feeds, error]
	// Steps is the number of the last step; 0 means no limit.
	Steps int64

	// Saver, if not nil, saves a checkpoint every SaveEvery (0 means 10 minutes) and at the end. Training resumes from
	// the latest one of Checkpoints.
	Saver       *Saver
	Checkpoints Checkpoints
	SaveEvery   time.Duration

	// Each, if not nil, is called after each step. An error that it returns ends the training. Train returns that error
	// unless it is ErrStop.
	Each func(Progress) error
}

// Progress is how far a training has come.
type Progress struct {
	// Step is the number of steps, including those before the restored checkpoint.
	Step int64
	// Loss is the loss of the last step; NaN if none is fetched.
	Loss float64
	// Steps is the number of steps that this process has run, and Elapsed the time that they took.
	Steps   int64
	Elapsed time.Duration
}

// ErrStop ends a training without an error.
var ErrStop = errors.New("troupe: stop training")

// EarlyStop returns a function for Training.Each that ends the training when the loss has not fallen by at least delta
// below its lowest value for patience steps. A loss that is NaN is INVALID_ARGUMENT. It calls the others first.
func EarlyStop(patience int64, delta float64, others ...func(Progress) error) func(Progress) error {
	lowest, since := math.Inf(1), int64(0)
	return func(p Progress) error {
		for _, other := range others {
			if err := other(p); err != nil {
				return err
			}
		}
		switch {
		case math.IsNaN(p.Loss):
			return status.Errorf(status.InvalidArgument, "The loss of step %d is not a number", p.Step)
		case p.Loss < lowest-delta:
			lowest, since = p.Loss, p.Step
		case p.Step-since >= patience:
			return ErrStop
		}
		return nil
	}
}

// Train runs a training until its batches end, its number of steps is reached, Each returns ErrStop, ctx ends, or an
// error occurs. It always returns the progress that it made. The last checkpoint is saved unless there was an error.
func Train(ctx context.Context, session *Session, t Training) (p Progress, err error) {
	p.Loss = math.NaN()
	if p.Step, err = t.begin(ctx, session); err != nil {
		return p, err
	}
	what := []op.Runnable{t.Step}
	if t.Loss.Op != nil {
		what = append(what, t.Loss)
	}
	every := t.SaveEvery
	if every == 0 {
		every = 10 * time.Minute
	}
	start := time.Now()
	saved, at := start, p.Step
	save := func() error {
		if t.Saver == nil || at == p.Step {
			return nil
		}
		saved, at = time.Now(), p.Step
		return t.Checkpoints.Save(ctx, session, t.Saver, p.Step)
	}
	for feeds, err := range t.batches(p.Step) {
		if err != nil {
			return p, err
		}
		if p.Loss, err = step(ctx, session, feeds, what); err != nil {
			return p, err
		}
		p.Step++
		p.Steps++
		p.Elapsed = time.Since(start)
		if t.Each != nil {
			err := t.Each(p)
			if errors.Is(err, ErrStop) {
				break
			}
			if err != nil {
				return p, err
			}
		}
		if t.Steps > 0 && p.Step >= t.Steps {
			break
		}
		if time.Since(saved) >= every {
			if err := save(); err != nil {
				return p, err
			}
		}
	}
	return p, save()
}

// begin restores the latest checkpoint and returns its step, or runs Init if there is none.
func (t *Training) begin(ctx context.Context, session *Session) (step int64, err error) {
	if t.Step == nil {
		return 0, status.InvalidArgumentf("A training needs a step to run: its graph has an error, or Step is not set")
	}
	if t.Saver != nil {
		prefix, step, ok, err := t.Checkpoints.Latest()
		if err != nil {
			return 0, err
		}
		if ok {
			return step, t.Saver.Restore(ctx, session, prefix)
		}
	}
	if t.Init == nil {
		return 0, nil
	}
	_, err = session.Eval(ctx, nil, t.Init)
	return 0, err
}

// batches returns the training's batches, or endless empty ones if it has none. There are no more if all steps have
// been run.
func (t *Training) batches(done int64) iter.Seq2[Feeds, error] {
	if t.Batches != nil && (t.Steps == 0 || done < t.Steps) {
		return t.Batches
	}
	return func(yield func(Feeds, error) bool) {
		for (t.Steps == 0 || done < t.Steps) && yield(nil, nil) {
		}
	}
}

// step runs one step and returns its loss.
func step(ctx context.Context, session *Session, feeds Feeds, what []op.Runnable) (loss float64, err error) {
	fetched, err := session.Eval(ctx, feeds, what...)
	if err != nil || len(fetched) == 0 {
		return math.NaN(), err
	}
	defer fetched[0].Release()
	if fetched[0].DType() == tensor.Float32 {
		loss, err := tensor.To[float32](fetched[0])
		return float64(loss), err
	}
	return tensor.To[float64](fetched[0])
}
