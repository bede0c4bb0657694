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

// Training is a loop over batches that runs an optimizer's step for each. Only Step is needed.
type Training struct {
	// Step is what to run for each batch, such as the operation that an optimizer of package graph/train gives.
	Step *op.Operation
	// Loss is a float scalar that is fetched with each step, for Progress.
	Loss op.Output
	// Init is run first, where no checkpoint is restored: op.Initialize of the graph, for the chief of a cluster.
	Init *op.Operation
	// Batches are what the steps are fed. Training ends with them, or with their first error. Without them steps
	// are fed nothing.
	Batches iter.Seq2[Feeds, error]
	// Steps bounds the step's number; 0 is no bound.
	Steps int64

	// Saver, if any, saves a checkpoint every SaveEvery (10 minutes if that is 0) and in the end, and the latest
	// one of Checkpoints is what training goes on from.
	Saver       *Saver
	Checkpoints Checkpoints
	SaveEvery   time.Duration

	// Each, if any, is told of each step. What it returns ends the training: ErrStop well, others as they are.
	Each func(Progress) error
}

// Progress is how far a training is.
type Progress struct {
	// Step is the number of steps, those before the restored checkpoint included.
	Step int64
	// Loss is that of the last step, NaN where none is fetched.
	Loss float64
	// Steps is how many steps this process has run, in Elapsed.
	Steps   int64
	Elapsed time.Duration
}

// ErrStop ends a training well.
var ErrStop = errors.New("troupe: training is to stop")

// EarlyStop gives a Training's Each that ends it when the loss has not fallen by at least delta below its lowest
// value in so many steps, or is no number. Others, if any, are told first.
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
			return status.Errorf(status.InvalidArgument, "The loss of step %d is no number", p.Step)
		case p.Loss < lowest-delta:
			lowest, since = p.Loss, p.Step
		case p.Step-since >= patience:
			return ErrStop
		}
		return nil
	}
}

// Train runs a training to its end, which comes with its batches, its number of steps, ErrStop, ctx or an error. It
// tells how far it came in any case. The last checkpoint is saved unless there was an error.
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

// begin restores the latest checkpoint and gives its step, or else initializes.
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

// batches are those of the training, or empty ones for ever; none where all steps have been run.
func (t *Training) batches(done int64) iter.Seq2[Feeds, error] {
	if t.Batches != nil && (t.Steps == 0 || done < t.Steps) {
		return t.Batches
	}
	return func(yield func(Feeds, error) bool) {
		for (t.Steps == 0 || done < t.Steps) && yield(nil, nil) {
		}
	}
}

// step runs one step and gives its loss.
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
