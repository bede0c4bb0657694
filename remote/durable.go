package remote

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/devices"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/durable"
	"github.com/troupe-run/troupe/internal/rights"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/remote/spec"
)

// CheckDurable rejects a directory without durable containers, the converse, and containers that are not declared as Config.Durable says.
func CheckDurable(data string, entries []string) error {
	switch {
	case data == "" && len(entries) > 0:
		return status.InvalidArgumentf("durable containers need a directory for their data (--data; in Python, data=; in Go, WithDurable)")
	case data != "" && len(entries) == 0:
		return status.InvalidArgumentf("the directory %s keeps nothing: say which containers are durable (--durable; in Python, durable=; in Go, WithDurable)", data)
	}
	_, err := parseDurable(entries)
	return err
}

// openStore opens the directory that keeps the node's durable containers, if there is one. A guest has its host's.
func (n *Node) openStore(c Config) (_ *durable.Store, err error) {
	if c.lent != nil {
		return c.kept, nil
	}
	if err := CheckDurable(c.Data, c.Durable); err != nil || c.Data == "" {
		return nil, err
	}
	if n.lasting, err = parseDurable(c.Durable); err != nil {
		return nil, err
	}
	if durable.OwnerOf(n.dataDir(c)) == "" {
		if left := leftBehind(c.Data, n.Spec().Jobs()); len(left) > 0 {
			n.Log().Warn("the task begins without durable state, beside that of jobs which the cluster does not have; a job that was renamed needs its former name, or its state by troupe data export and import",
				"directory", n.dataDir(c), "found", left)
		}
	}
	return durable.Open(n.dataDir(c), durable.Options{Owner: n.Self().Name(), Log: n.Log(), Limit: c.DataLimit, Compaction: c.CompactionRate})
}

// maxLeftBehind bounds the directories of others that are logged.
const maxLeftBehind = 10

// leftBehind returns the directories in data that keep the state of tasks of other jobs.
func leftBehind(data string, jobs []string) (left []string) {
	entries, err := os.ReadDir(data)
	if err != nil {
		return nil // it is made when the store is opened, whose error says more
	}
	for _, e := range entries {
		job, _, err := spec.ParseTaskName(durable.OwnerOf(filepath.Join(data, e.Name())))
		if err == nil && !slices.Contains(jobs, job) && len(left) < maxLeftBehind {
			left = append(left, e.Name())
		}
	}
	return left
}

// dataDir returns the task's own directory: the tasks of a machine may be given the same one.
func (n *Node) dataDir(c Config) string {
	return filepath.Join(c.Data, fmt.Sprintf("%s-%d", c.Job, c.Task))
}

// data returns the state of what keeps the task's durable containers, or nil.
func (n *Node) data() *view.Data {
	if n.store == nil {
		return nil
	}
	s := n.store.Stats()
	d := &view.Data{Directory: n.dataDir(n.config), Resources: int64(s.Resources), DiskBytes: s.Disk, PendingBytes: s.Pending, Steps: s.Transactions, Commits: s.Commits,
		WrittenBytes: s.Bytes, LastSyncSeconds: s.LastSync.Seconds(), SyncSeconds: s.MeanSync.Seconds() * float64(s.Commits), Splits: s.Splits}
	if err := n.store.Err(); err != nil {
		d.Refusing = err.Error()
	}
	return d
}

// lasting is an entry of Config.Durable: containers by a pattern, and how often pictures of their variables are taken, or 0 if they are
// written at every step.
type lasting struct {
	pattern string
	every   time.Duration
}

// snapshotOption begins what may follow a pattern: how often pictures are taken.
const snapshotOption = "snapshot="

// parseDurable parses the entries of Config.Durable.
func parseDurable(entries []string) ([]lasting, error) {
	var all []lasting
	for _, e := range entries {
		pattern, option, found := strings.Cut(e, ":")
		l := lasting{pattern: pattern}
		if found {
			text, ok := strings.CutPrefix(option, snapshotOption)
			d, err := time.ParseDuration(text)
			if !ok || err != nil || d < time.Second {
				return nil, status.InvalidArgumentf("the durable containers %q are followed by %q, and only %s and a time of 1s or more may follow a colon, such as %s30s", pattern, option, snapshotOption, snapshotOption)
			}
			l.every = d
		}
		all = append(all, l)
	}
	return all, nil
}

// lastingOf is a containers.Lasting: it goes by the first entry that a container matches.
func (n *Node) lastingOf(container string) (every time.Duration, lasts bool) {
	for _, l := range n.lasting {
		if l.pattern == "" && container == n.config.Job || l.pattern != "" && rights.Match(l.pattern, container) {
			return l.every, true
		}
	}
	return 0, false
}

// refuser is a device whose memory cannot be kept.
type refuser interface {
	RefuseDurable(lasting containers.Lasting)
}

// restore makes the containers of the node's CPUs durable and brings their resources back.
func (n *Node) restore(c Config, cpus []*devices.CPU) error {
	if n.store == nil {
		return nil
	}
	n.pictures = containers.NewPictures(n.store, n.Log())
	for _, cpu := range cpus {
		cpu.Keep(n.pictures, n.lastingOf)
	}
	count := 0
	err := n.store.Load(func(cell *durable.Cell, at durable.Place, about []byte) error {
		for _, cpu := range cpus {
			if cpu.Name() == at.Device {
				if _, lasts := n.lastingOf(at.Container); !lasts {
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
		n.Log().Info("durable resources are back", "directory", n.dataDir(c), "resources", count)
	}
	return err
}
