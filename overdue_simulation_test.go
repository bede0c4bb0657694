package troupe

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/op/attr"
	"github.com/troupe-run/troupe/graph/shape"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// waitsForAnother are resources for which a step can wait until another one brings or takes something. Each adds to a graph what brings or
// takes it, and a step that waits once more than that.
var waitsForAnother = map[string]func(s *op.Scope) (act, wait op.Runnable){
	"a queue's element": func(s *op.Scope) (act, wait op.Runnable) {
		q := op.FIFOQueueV2(s, []tensor.DType{tensor.Float32}, attr.Shapes([]shape.Shape{shape.Of()}), attr.SharedName("q"))
		return op.QueueEnqueueV2(s, q, []op.Output{op.Const(s, float32(1))}), op.QueueDequeueManyV2(s, q, op.Const(s, int32(2)), []tensor.DType{tensor.Float32})[0].Op
	},
	"room in a queue": func(s *op.Scope) (act, wait op.Runnable) {
		q := op.FIFOQueueV2(s, []tensor.DType{tensor.Float32}, attr.SharedName("full"), attr.Capacity(1))
		put := func(s *op.Scope) *op.Operation { return op.QueueEnqueueV2(s, q, []op.Output{op.Const(s, float32(1))}) }
		act = op.QueueDequeueV2(s.WithControlDependencies(put(s)), q, []tensor.DType{tensor.Float32})[0].Op
		return act, put(s.WithControlDependencies(put(s)))
	},
	"a staged tuple": func(s *op.Scope) (act, wait op.Runnable) {
		staged := []op.Output{op.Const(s, float32(1))}
		unstage := func(s *op.Scope) *op.Operation {
			return op.Unstage(s, []tensor.DType{tensor.Float32}, attr.SharedName("stage"))[0].Op
		}
		return op.Stage(s, staged, attr.SharedName("stage")), unstage(s.WithControlDependencies(unstage(s)))
	},
	"a mapped tuple": func(s *op.Scope) (act, wait op.Runnable) {
		key, index := op.Const(s, int64(1)), op.Const(s, []int32{0})
		unstage := func(s *op.Scope) *op.Operation {
			return op.MapUnstage(s, key, index, []tensor.DType{tensor.Float32}, attr.SharedName("map"))[0].Op
		}
		put := op.MapStage(s, key, index, []op.Output{op.Const(s, float32(1))}, []tensor.DType{tensor.Float32}, attr.SharedName("map"))
		return put, unstage(s.WithControlDependencies(unstage(s)))
	},
	"a barrier's tuple": func(s *op.Scope) (act, wait op.Runnable) {
		b := op.Barrier(s, []tensor.DType{tensor.Float32}, attr.Shapes([]shape.Shape{shape.Of()}), attr.SharedName("barrier"))
		_, _, values := op.BarrierTakeMany(s, b, op.Const(s, int32(2)), []tensor.DType{tensor.Float32})
		return op.BarrierInsertMany(s, b, op.Const(s, []string{"k"}), op.Const(s, []float32{1}), 0), values[0].Op
	},
	"the name of a reader's file": func(s *op.Scope) (act, wait op.Runnable) {
		files := op.FIFOQueueV2(s, []tensor.DType{tensor.String}, attr.Shapes([]shape.Shape{shape.Of()}), attr.SharedName("files"))
		reader := op.IdentityReaderV2(s, attr.SharedName("reader"))
		read := func(s *op.Scope) *op.Operation {
			_, value := op.ReaderReadV2(s, reader, files)
			return value.Op
		}
		return op.QueueEnqueueV2(s, files, []op.Output{op.Const(s, "name")}), read(s.WithControlDependencies(read(s)))
	},
	"a lock": func(s *op.Scope) (act, wait op.Runnable) {
		m := op.MutexV2(s, attr.SharedName("lock"))
		kept := op.FIFOQueueV2(s, []tensor.DType{tensor.Variant}, attr.Shapes([]shape.Shape{shape.Of()}), attr.SharedName("kept"))
		return op.QueueEnqueueV2(s, kept, []op.Output{op.MutexLock(s, m)}), op.ConsumeMutexLock(s, op.MutexLock(s, m))
	},
	"a gradient": func(s *op.Scope) (act, wait op.Runnable) {
		a := op.ConditionalAccumulator(s, tensor.Float32, shape.Of(), attr.SharedName("accumulator"))
		return op.AccumulatorApplyGradient(s, a, op.Const(s, int64(0)), op.Const(s, float32(1))),
			op.AccumulatorTakeGradient(s, a, op.Const(s, int32(2)), tensor.Float32).Op
	},
}

// TestOverdueStepsTellWhatIsKnown checks what the error of an overdue step says of the session that last brought or took something: it is
// gone only if its task is, although no link between that task and the step's own has been needed.
func TestOverdueStepsTellWhatIsKnown(t *testing.T) {
	gone := regexp.MustCompile(`whose master /job:w/replica:0/task:2 (is|has been) gone`)
	fates := map[string]struct {
		befall func(t *testing.T, sim *simulation, other *Session)
		says   *regexp.Regexp
	}{
		"idle":    {func(*testing.T, *simulation, *Session) {}, regexp.MustCompile(`which has been idle for \S+$`)},
		"closed":  {func(t *testing.T, _ *simulation, other *Session) { closeSession(t, other) }, regexp.MustCompile(`which was closed \S+ ago$`)},
		"killed":  {func(_ *testing.T, sim *simulation, _ *Session) { sim.kill(2); pass(20 * time.Second) }, gone},
		"frozen":  {func(_ *testing.T, sim *simulation, _ *Session) { sim.host(2).Freeze(true) }, regexp.MustCompile(`whose master /job:w/replica:0/task:2 does not answer now: `)},
		"cut off": {func(_ *testing.T, sim *simulation, _ *Session) { sim.net.Cut(sim.host(1), sim.host(2), true) }, regexp.MustCompile(`whose master /job:w/replica:0/task:2 does not answer now: `)},
	}
	for resource, build := range waitsForAnother {
		for name, fate := range fates {
			t.Run(resource+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					sim := simulated(t, 3)
					pass(time.Minute)
					s := op.NewScope()
					act, wait := build(s.WithDevice("/job:w/task:0"))
					own, other := sessionOf(t, sim.tasks[1], s), sessionOf(t, sim.tasks[2], s)
					if _, err := other.Eval(deadline(t), nil, act); err != nil {
						t.Fatal(err)
					}
					fate.befall(t, sim, other)
					err := overdue(t, own, wait)
					if sim.host(2).Freeze(false); !fate.says.MatchString(err) || gone.MatchString(err) != (name == "killed") {
						t.Errorf("it says: %s", err)
					}
				})
			})
		}
	}
}

// heldByAnother are resources that a running step holds, which another step waits for. Each adds to a graph a step that holds it, and waits for
// an element of a queue, and one that waits for that step.
var heldByAnother = map[string]func(s *op.Scope) (hold, wait op.Runnable){
	"a lock": func(s *op.Scope) (hold, wait op.Runnable) {
		m := op.MutexV2(s, attr.SharedName("lock"))
		q := op.FIFOQueueV2(s, []tensor.DType{tensor.Float32}, attr.SharedName("q"))
		lock := op.MutexLock(s, m)
		held := op.QueueDequeueV2(s.WithControlDependencies(lock.Op), q, []tensor.DType{tensor.Float32})[0]
		return op.ConsumeMutexLock(s.WithControlDependencies(held.Op), lock), op.ConsumeMutexLock(s, op.MutexLock(s, m))
	},
	"a reader's turn": func(s *op.Scope) (hold, wait op.Runnable) {
		q := op.FIFOQueueV2(s, []tensor.DType{tensor.String}, attr.SharedName("q"))
		reader := op.IdentityReaderV2(s, attr.SharedName("reader"))
		_, first := op.ReaderReadV2(s, reader, q)
		_, second := op.ReaderReadV2(s, reader, q)
		return first.Op, second.Op
	},
}

// TestOverdueStepsTellWhoHoldsWhatTheyNeed checks what the error of an overdue step says of a running step of another session that holds what
// it needs: what that step waits for, whatever is known of its session's master. A step whose session or master ends holds nothing any more.
func TestOverdueStepsTellWhoHoldsWhatTheyNeed(t *testing.T) {
	const waits = `(: \{\{node QueueDequeueV2\}\} .* has waited|: \{\{node ReaderReadV2\}\} .*, and waits) to dequeue from the FIFOQueue 'q' .* nobody has ever enqueued$`
	says := regexp.MustCompile(`(of session \S+ holds|it is the turn of step \d+ of session \S+)` + waits)
	away := regexp.MustCompile(`session \S+ \(whose master /job:w/replica:0/task:2 does not answer now: [^)]*\)( holds)?` + waits)
	fates := map[string]struct {
		befall func(t *testing.T, sim *simulation, other *Session)
		says   *regexp.Regexp // nil: the step holds nothing any more
	}{
		"running": {func(*testing.T, *simulation, *Session) {}, says},
		"closed":  {func(t *testing.T, _ *simulation, other *Session) { closeSession(t, other) }, nil},
		"killed":  {func(_ *testing.T, sim *simulation, _ *Session) { sim.kill(2); pass(20 * time.Second) }, nil},
		"frozen":  {func(_ *testing.T, sim *simulation, _ *Session) { sim.host(2).Freeze(true) }, away},
		"cut off": {func(_ *testing.T, sim *simulation, _ *Session) { sim.net.Cut(sim.host(1), sim.host(2), true) }, away},
	}
	for resource, build := range heldByAnother {
		for name, fate := range fates {
			t.Run(resource+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					sim := simulated(t, 3)
					pass(time.Minute)
					s := op.NewScope()
					hold, wait := build(s.WithDevice("/job:w/task:0"))
					own, other := sessionOf(t, sim.tasks[1], s), sessionOf(t, sim.tasks[2], s)
					held := make(chan error, 1)
					ctx, cancel := context.WithCancel(t.Context())
					go func() {
						_, err := other.Eval(ctx, nil, hold)
						held <- err
					}()
					synctest.Wait()
					fate.befall(t, sim, other)
					if resource == "a lock" && fate.says == nil { // it is free again
						if _, err := own.Eval(deadline(t), nil, wait); err != nil {
							t.Error(err)
						}
					} else {
						err := overdue(t, own, wait)
						sim.host(2).Freeze(false)
						if fate.says != nil && !fate.says.MatchString(err) || fate.says == nil && strings.Contains(err, "turn of step") || strings.Contains(err, "gone") {
							t.Errorf("it says: %s", err)
						}
					}
					cancel()
					if err := <-held; err == nil {
						t.Error("the step that held it has ended without an error")
					}
				})
			})
		}
	}
}

// TestOverdueStepsDoNotCountThemselves checks that the other steps of a session, in the error of one of its steps, are the other ones.
func TestOverdueStepsDoNotCountThemselves(t *testing.T) {
	for resource, build := range waitsForAnother {
		t.Run(resource, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sim := simulated(t, 2)
				s := op.NewScope()
				act, wait := build(s.WithDevice("/job:w/task:0"))
				session := sessionOf(t, sim.tasks[1], s)
				if _, err := session.Eval(deadline(t), nil, act); err != nil {
					t.Fatal(err)
				}
				if err := overdue(t, session, wait); !strings.Contains(err, ", which runs no other step") {
					t.Errorf("it says: %s", err)
				}
			})
		})
	}
}

// overdue runs a step that does not end in time, and returns the error's text.
func overdue(t *testing.T, s *Session, step op.Runnable) string {
	t.Helper()
	_, targets, err := names([]op.Runnable{step})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.RunStep(deadline(t), Step{Targets: targets, Options: &corepb.RunOptions{TimeoutInMs: 1500}})
	if status.CodeOf(err) != status.DeadlineExceeded {
		t.Fatalf("%v", err)
	}
	return err.Error()
}

func closeSession(t *testing.T, s *Session) {
	t.Helper()
	if err := s.Close(deadline(t)); err != nil {
		t.Fatal(err)
	}
}
