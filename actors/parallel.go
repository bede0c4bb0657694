package actors

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/troupe-run/troupe/internal/contain"
)

// sideBySide bounds the tasks that are contacted concurrently for one purpose.
const sideBySide = 64

// parallel runs f for each item, at most sideBySide concurrently, and waits for all. It returns the first error, which cancels the context
// of the others. A panic in f is raised in the caller.
func parallel[T any](ctx context.Context, items []T, f func(ctx context.Context, item T) error) error {
	if len(items) == 1 {
		return f(ctx, items[0])
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex // guards first between the goroutines of this call, which end with it
	var first error
	fail := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		if first == nil {
			first = err
		}
		cancel()
	}
	var panicked atomic.Value
	var running sync.WaitGroup
	turns := make(chan struct{}, sideBySide)
	for _, item := range items {
		turns <- struct{}{}
		running.Go(contain.Func(nil, "A task's share of a call", func() {
			defer func() { <-turns }()
			if err := f(ctx, item); err != nil {
				fail(err)
			}
		}, func(err error) {
			fail(err)
			panicked.Store(err)
		}))
	}
	running.Wait()
	if err := panicked.Load(); err != nil {
		panic(err.(error).Error())
	}
	return first
}
