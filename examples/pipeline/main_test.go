package main

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"golang.org/x/sync/errgroup"
)

func TestTwoRuns(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cluster, err := troupe.NewLocalCluster(ctx, map[string]int{"worker": 1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := cluster.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	target := cluster.Server("worker", 0).Target()
	const all = 10_000
	// Two runs are under way at once, beside words that another one has left.
	if _, err := run(ctx, target, "left", 100); err != nil {
		t.Fatal(err)
	}
	var processes errgroup.Group
	consumed := map[string]*atomic.Int64{"first": {}, "second": {}}
	for name, count := range consumed {
		for range 2 {
			processes.Go(func() error {
				n, err := run(ctx, target, name, 0)
				count.Add(int64(n))
				return err
			})
		}
		processes.Go(func() error {
			_, err := run(ctx, target, name, all)
			return err
		})
	}
	err = processes.Wait()
	for name, count := range consumed {
		if err != nil || count.Load() != all {
			t.Errorf("%d of %d words of the run %s were consumed: %v", count.Load(), all, name, err)
		}
	}
}
