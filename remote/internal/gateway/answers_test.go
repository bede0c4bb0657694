package gateway

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

func result(t *testing.T, pool *tensor.Pool, bytes int64) *actors.StepResult {
	t.Helper()
	v, err := tensor.New(pool, tensor.Uint8, tensor.Shape{bytes})
	if err != nil {
		t.Fatal(err)
	}
	return &actors.StepResult{Tensors: []*tensor.Tensor{v}}
}

// TestRepeatedRequest: a repetition, during the first one or after it, gets the first one's answer,
// and nothing is left of it when the answer's time is over.
func TestRepeatedRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := tensor.NewPool("test", 0)
		var a answers
		a.init()
		defer a.close()
		runs, finish := 0, make(chan struct{})
		run := func() (*actors.StepResult, error) {
			runs++
			<-finish
			return result(t, pool, 100), nil
		}
		key := answerKey{"s", 7, 0}
		answered := make(chan *actors.StepResult, 3)
		for range 2 {
			go func() {
				r, err := a.once(t.Context(), key, run)
				if err != nil {
					t.Error(err)
				}
				answered <- r
			}()
		}
		synctest.Wait()
		close(finish)
		first, second := <-answered, <-answered
		third, err := a.once(t.Context(), key, run)
		if err != nil || runs != 1 {
			t.Fatalf("%d runs, %v", runs, err)
		}
		for _, r := range []*actors.StepResult{first, second, third} {
			if r.Tensors[0] != first.Tensors[0] {
				t.Fatal("another tensor than the first one's")
			}
			r.Release()
		}
		if pool.Stats().InUse == 0 {
			t.Fatal("the answer is not kept")
		}
		time.Sleep(2*answerTime + time.Second)
		synctest.Wait()
		if n := pool.Stats().InUse; n != 0 {
			t.Fatalf("%d bytes are kept for ever", n)
		}
	})
}

func TestAnswersAreBounded(t *testing.T) {
	pool := tensor.NewPool("test", 0)
	var a answers
	a.init()
	for i := range 2 * maxAnswers {
		r, err := a.once(t.Context(), answerKey{"s", int64(i + 1), 0}, func() (*actors.StepResult, error) { return result(t, pool, 64<<10), nil })
		if err != nil {
			t.Fatal(err)
		}
		r.Release()
	}
	if n := pool.Stats().InUse; n > answerBytes+(1<<20) || len(a.byKey) > maxAnswers {
		t.Fatalf("%d bytes, %d answers", n, len(a.byKey))
	}
	a.close()
	if n := pool.Stats().InUse; n != 0 {
		t.Fatalf("%d bytes left", n)
	}
}

func TestWaitingForAnAnswerEnds(t *testing.T) {
	var a answers
	a.init()
	defer a.close()
	finish := make(chan struct{})
	begun := make(chan struct{})
	go a.once(t.Context(), answerKey{"s", 1, 0}, func() (*actors.StepResult, error) {
		close(begun)
		<-finish
		return nil, errors.New("failed")
	})
	<-begun
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.once(ctx, answerKey{"s", 1, 0}, nil); status.CodeOf(err) != status.Cancelled {
		t.Fatal(err)
	}
	close(finish)
}

// A client that uses an id again for something else gets what it asks for.
func TestSameIDOfOtherRequests(t *testing.T) {
	keys := map[answerKey]bool{}
	for _, fetches := range [][]string{nil, {""}, {"a:0"}, {"a:0", "b:0"}, {"b:0", "a:0"}, {"a:0b:0"}} {
		key := answerKey{"s", 7, hashFetches(fetches)}
		if keys[key] || key != (answerKey{"s", 7, hashFetches(fetches)}) {
			t.Errorf("%q: the key is not its own", fetches)
		}
		keys[key] = true
	}
}
