package actors

import (
	"context"
	"fmt"
	"sync"
)

// sideBySide bounds how many tasks are spoken to at the same time for one purpose.
const sideBySide = 64

// parallel runs f for each of items, several at a time, and waits for all. Its error is the first
// one, which ends the context of the others. A panic of f is the caller's.
func parallel[T any](ctx context.Context, items []T, f func(ctx context.Context, item T) error) error {
	if len(items) == 1 {
		return f(ctx, items[0])
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	var first error
	var panicked any
	fail := func(err error, p any) {
		mu.Lock()
		defer mu.Unlock()
		if first == nil {
			first = err
		}
		if panicked == nil {
			panicked = p
		}
		cancel()
	}
	var running sync.WaitGroup
	turns := make(chan struct{}, sideBySide)
	for _, item := range items {
		turns <- struct{}{}
		running.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					fail(nil, fmt.Sprintf("%v\n%s", p, stack()))
				}
				<-turns
			}()
			if err := f(ctx, item); err != nil {
				fail(err, nil)
			}
		})
	}
	running.Wait()
	if panicked != nil {
		panic(panicked)
	}
	return first
}
