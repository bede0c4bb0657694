// Package place provides the cluster that an example runs on: a running one, or one in this process that ends with the example.
package place

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/troupe-run/troupe"
)

// Worker is a task of the job worker, on which sessions can be opened.
type Worker struct {
	troupe.Master
	Target string
}

// Workers returns n workers of a cluster with a parameter server, /job:ps/task:0. Their targets are separated by commas; without targets,
// the cluster is started in this process. stop disconnects from the cluster or stops it.
func Workers(ctx context.Context, targets string, n int) (workers []Worker, stop func(context.Context) error, err error) {
	if targets == "" {
		cluster, err := troupe.NewLocalCluster(ctx, map[string]int{"ps": 1, "worker": n}, troupe.WithLogger(slog.New(slog.DiscardHandler)))
		if err != nil {
			return nil, nil, err
		}
		for i := range n {
			server := cluster.Server("worker", i)
			workers = append(workers, Worker{server, server.Target()})
		}
		return workers, cluster.Stop, nil
	}
	all := strings.Split(targets, ",")
	if len(all) != n {
		return nil, nil, fmt.Errorf("need the targets of %d workers, not %q", n, targets)
	}
	var clients []*troupe.Client
	stop = func(ctx context.Context) error {
		var errs []error
		for _, c := range clients {
			errs = append(errs, c.Close(ctx))
		}
		return errors.Join(errs...)
	}
	for _, target := range all {
		c, err := troupe.Dial(ctx, target)
		if err != nil {
			return nil, nil, errors.Join(err, stop(ctx))
		}
		clients, workers = append(clients, c), append(workers, Worker{c, target})
	}
	return workers, stop, nil
}
