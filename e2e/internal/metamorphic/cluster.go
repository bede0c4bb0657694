package metamorphic

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/extent"
)

// Cluster is a cluster in this process on which programs run.
type Cluster struct {
	Name    string
	local   *troupe.LocalCluster
	servers []*troupe.Server
	devices []string
}

// shape describes a cluster.
type shape struct {
	jobs    map[string]int
	cpus    int
	lending bool // tensors pass between tasks without being encoded
}

var shapes = []shape{
	{map[string]int{"worker": 1}, 1, true},
	{map[string]int{"worker": 1}, 3, true},
	{map[string]int{"worker": 2}, 1, true},
	{map[string]int{"ps": 1, "worker": 2}, 1, false},
	{map[string]int{"worker": 4}, 1, true},
	{map[string]int{"worker": 2}, 2, false},
}

func (s shape) String() string {
	name := ""
	for _, job := range slices.Sorted(maps.Keys(s.jobs)) {
		name += fmt.Sprintf("%s=%d,", job, s.jobs[job])
	}
	return fmt.Sprintf("%s cpus=%d", name[:len(name)-1], s.cpus)
}

func (s shape) start(ctx context.Context) (*Cluster, error) {
	local, err := troupe.NewLocalCluster(ctx, s.jobs, troupe.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil))),
		troupe.WithConfig(&corepb.ConfigProto{DeviceCount: map[string]int32{"CPU": int32(s.cpus)}}), troupe.WithLending(s.lending))
	if err != nil {
		return nil, err
	}
	c := &Cluster{Name: s.String(), local: local, servers: local.Servers()}
	for cpu := range s.cpus { // tasks first, so that adjacent places are on different tasks
		for _, server := range c.servers {
			c.devices = append(c.devices, fmt.Sprintf("%s/device:CPU:%d", server.Task(), cpu))
		}
	}
	return c, nil
}

// reset drops all state of the cluster's resources.
func (c *Cluster) reset(ctx context.Context) error { return c.servers[0].Reset(ctx) }

func (c *Cluster) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), extent.Slack(10*time.Second))
	defer cancel()
	return c.local.Stop(ctx)
}

// Clusters is one cluster of each shape. It must be used by one goroutine at a time.
type Clusters struct {
	all  []*Cluster
	used int
	// damage changes the graphs that are sent, to test whether this is detected; it may be nil.
	damage func(*graphpb.GraphDef)
}

// StartClusters starts them all. ctx bounds the start.
func StartClusters(ctx context.Context) (*Clusters, error) {
	c := &Clusters{}
	for _, s := range shapes {
		one, err := s.start(ctx)
		if err != nil {
			return nil, errors.Join(err, c.Stop())
		}
		c.all = append(c.all, one)
	}
	return c, nil
}

// Stop stops them all, and returns the errors of those that did not stop.
func (c *Clusters) Stop() error {
	errs := make([]error, len(c.all))
	var wg sync.WaitGroup
	for i, one := range c.all {
		wg.Go(func() {
			if err := one.stop(); err != nil {
				errs[i] = fmt.Errorf("the cluster %s did not stop: %w", one.Name, err)
			}
		})
	}
	wg.Wait()
	c.all = nil
	return errors.Join(errs...)
}

// tidy occasionally drops the state of programs.
func (c *Clusters) tidy(ctx context.Context) error {
	const often = 64
	if c.used++; c.used%often != 0 {
		return nil
	}
	for _, one := range c.all {
		if err := one.reset(ctx); err != nil {
			return err
		}
	}
	return nil
}
