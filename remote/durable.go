package remote

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/troupe-run/troupe/devices"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/durable"
	"github.com/troupe-run/troupe/internal/rights"
)

// openStore opens the directory that keeps the node's durable containers, if there is one. A guest has its host's.
func (n *Node) openStore(c Config) (*durable.Store, error) {
	switch {
	case c.lent != nil:
		return c.kept, nil
	case c.Data == "" && len(c.Durable) == 0:
		return nil, nil
	case c.Data == "":
		return nil, status.InvalidArgumentf("durable containers need a directory for their data (--data, WithDurable)")
	case len(c.Durable) == 0:
		return nil, status.InvalidArgumentf("the directory %s keeps nothing: say which containers are durable (--durable, WithDurable)", c.Data)
	}
	return durable.Open(n.dataDir(c), durable.Options{Owner: n.self.Name(), Log: n.log})
}

// dataDir returns the task's own directory: the tasks of a machine may be given the same one.
func (n *Node) dataDir(c Config) string {
	return filepath.Join(c.Data, fmt.Sprintf("%s-%d", c.Job, c.Task))
}

// isDurable reports whether a container outlives the process.
func (c *Config) isDurable(container string) bool {
	return slices.ContainsFunc(c.Durable, func(pattern string) bool {
		return pattern == "" && container == c.Job || pattern != "" && rights.Match(pattern, container)
	})
}

// refuser is a device whose memory cannot be kept.
type refuser interface {
	RefuseDurable(covers func(container string) bool)
}

// restore makes the containers of the node's CPUs durable and brings their resources back.
func (n *Node) restore(c Config, cpus []*devices.CPU) error {
	if n.store == nil {
		return nil
	}
	covers := c.isDurable
	for _, cpu := range cpus {
		cpu.Keep(n.store, covers)
	}
	count := 0
	err := n.store.Load(func(cell *durable.Cell, at durable.Place, about []byte) error {
		for _, cpu := range cpus {
			if cpu.Name() == at.Device {
				if !covers(at.Container) {
					return status.Errorf(status.FailedPrecondition, "%s has the %s %s of the container %s, which is not durable any more: add the container to --durable again",
						n.dataDir(c), at.Kind, at.Name, at.Container)
				}
				count++
				return cpu.Restore(cell, at, about)
			}
		}
		return status.Errorf(status.FailedPrecondition, "%s has the %s %s of the device %s, which this task does not have", n.dataDir(c), at.Kind, at.Name, at.Device)
	})
	if err == nil && count > 0 {
		n.log.Info("durable resources are back", "directory", n.dataDir(c), "resources", count)
	}
	return err
}
