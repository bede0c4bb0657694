package main

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"golang.org/x/sync/errgroup"
)

func TestTwoConsumers(t *testing.T) {
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
	var consumed atomic.Int64
	var processes errgroup.Group
	for range 2 {
		processes.Go(func() error {
			n, err := run(ctx, target, 0)
			consumed.Add(int64(n))
			return err
		})
	}
	processes.Go(func() error {
		_, err := run(ctx, target, all)
		return err
	})
	if err := processes.Wait(); err != nil || consumed.Load() != all {
		t.Errorf("%d of %d words were consumed: %v", consumed.Load(), all, err)
	}
}
