// Package data reads the directories in which stopped tasks have kept their durable containers, and imports variables into them. Only Import
// writes to their files.
//
// Package durable knows the entries of a store; packages containers and queues know what the entries of a resource mean. This package
// decodes one resource at a time, so it needs the memory of the largest one.
package data

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/internal/durable"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/restore"
	"github.com/troupe-run/troupe/queues"
)

// Find returns the directories of tasks: dir itself, or else those in it.
func Find(dir string) (found []string, err error) {
	is, err := isTask(dir)
	if err != nil || is {
		return []string{dir}, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		is, err := isTask(path)
		if err != nil {
			return nil, err
		}
		if is {
			found = append(found, path)
		}
	}
	if len(found) == 0 {
		return nil, status.Errorf(status.NotFound, "there is no task's data in %s: neither it nor a directory in it has a file OWNER", dir)
	}
	return found, nil
}

// isTask reports whether dir is a directory of a task.
func isTask(dir string) (bool, error) {
	info, err := os.Stat(dir)
	if err != nil || !info.IsDir() {
		return false, err
	}
	_, err = os.Stat(filepath.Join(dir, "OWNER"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// store is an opened directory.
type store struct {
	*durable.Store
	dir       string
	resources []*resource // sorted by place
}

// resource is a resource of a store.
type resource struct {
	durable.Place
	cell  *durable.Cell
	about []byte
}

func open(dir string) (*store, error) {
	d, err := durable.OpenReadOnly(dir)
	if err != nil {
		return nil, err
	}
	return load(d, dir)
}

// load reads the resources of a store that was just opened, which it closes if that fails.
func load(d *durable.Store, dir string) (*store, error) {
	s := &store{Store: d, dir: dir}
	if err := d.Load(func(c *durable.Cell, p durable.Place, about []byte) error {
		s.resources = append(s.resources, &resource{p, c, about})
		return nil
	}); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return s, nil
}

// entries returns how many entries a resource has, and their bytes.
func (r *resource) entries() (n int, bytes int64, err error) {
	err = r.cell.Each(func(key, value []byte) error {
		n, bytes = n+1, bytes+int64(len(key)+len(value))
		return nil
	})
	return n, bytes, err
}

// isVariable reports whether the resource is a variable.
func (r *resource) isVariable() bool {
	return r.Kind == kernels.KindVariable || r.Kind == kernels.KindRefVariable
}

// decoded calls f with the resource, such as a *containers.Variable or a *queues.Queue, which is in memory until f returns. The error also says that
// the resource can't be decoded.
func (r *resource) decoded(f func(containers.Resource) error) error {
	return contain.Run(slog.New(slog.DiscardHandler), "The decoding of "+r.Name, func() error {
		v, err := restore.Decode(containers.NewManager(nil, r.Device, ""), tensor.Host, r.cell, r.Place, r.about)
		if err != nil {
			return err
		}
		defer v.Close()
		return f(v)
	})
}

// Task is the data of a task. Its JSON is part of the interface of the command.
type Task struct {
	Directory string     `json:"directory"`
	Owner     string     `json:"owner"`
	Format    int        `json:"format"`
	Stopped   bool       `json:"stopped"` // in order
	Written   int64      `json:"written"` // nanoseconds since 1970
	Bytes     int64      `json:"bytes"`   // of all files
	Resources []Resource `json:"resources"`
}

// Resource is a variable, a queue or another resource.
type Resource struct {
	Device      string    `json:"device"`
	Container   string    `json:"container"`
	Kind        string    `json:"kind"`
	Name        string    `json:"name"`
	Bytes       int64     `json:"bytes"` // of its entries
	Description string    `json:"description"`
	Variable    *Variable `json:"variable,omitempty"`
	Queue       *Queue    `json:"queue,omitempty"`
	Problem     string    `json:"problem,omitempty"` // why it can't be read
}

// Variable is what a variable holds.
type Variable struct {
	DType string  `json:"dtype"`
	Shape []int64 `json:"shape"` // null without a value
}

// Queue is the state of a queue.
type Queue struct {
	Kind     string `json:"kind"`
	Elements int64  `json:"elements"`
	Closed   bool   `json:"closed"`
}

// Show describes what a directory has.
func Show(ctx context.Context, dir string) (t *Task, err error) {
	s, err := open(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	d, err := s.Directory()
	if err != nil {
		return nil, err
	}
	t = &Task{Directory: dir, Owner: d.Owner, Format: d.Format, Stopped: d.Closed, Written: d.Written.UnixNano(), Bytes: d.Bytes, Resources: []Resource{}}
	for _, r := range s.resources {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		shown, err := r.show()
		if err != nil {
			return nil, err
		}
		t.Resources = append(t.Resources, shown)
	}
	return t, nil
}

// Time returns when the data was written last.
func (t *Task) Time() time.Time { return time.Unix(0, t.Written) }

// show describes the resource.
func (r *resource) show() (shown Resource, err error) {
	shown = Resource{Device: r.Device, Container: r.Container, Kind: r.Kind, Name: r.Name}
	if _, shown.Bytes, err = r.entries(); err != nil {
		return shown, err
	}
	if err := r.decoded(func(what containers.Resource) error {
		switch what := what.(type) {
		case *containers.Variable:
			shown.Variable, shown.Description = describeVariable(what)
		case *queues.Queue:
			shown.Queue, shown.Description = describeQueue(what)
		default:
			shown.Description = containers.Describe(what)
		}
		return nil
	}); err != nil {
		shown.Problem = err.Error()
	}
	return shown, nil
}

func describeVariable(v *containers.Variable) (*Variable, string) {
	d := &Variable{DType: v.DType().String()}
	t := v.Read()
	if t == nil {
		return d, d.DType + ", no value"
	}
	defer t.Release()
	d.Shape = append([]int64{}, t.Shape()...)
	return d, d.DType + " " + t.Shape().String()
}

func describeQueue(q *queues.Queue) (*Queue, string) {
	var r view.Resource
	q.Show(&r)
	return &Queue{Kind: r.Queue.Kind, Elements: r.Queue.Size, Closed: r.Queue.Closed}, q.Describe()
}

// Report is the result of a check.
type Report struct {
	Problems           []string // each with its file or resource
	Resources, Entries int      // that are whole
}

// Check reads all records of a directory, and decodes the entries of its resources. The error says why they could not be read.
func Check(ctx context.Context, dir string) (r *Report, err error) {
	found, err := durable.Check(dir)
	if err != nil {
		return nil, err
	}
	r = &Report{}
	for _, p := range found {
		r.Problems = append(r.Problems, p.String())
	}
	if len(found) > 0 {
		return r, nil // what is in damaged files means nothing
	}
	s, err := open(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	for _, e := range s.resources {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		n, _, err := e.entries()
		if err == nil {
			err = e.decoded(func(containers.Resource) error { return nil })
		}
		if err != nil {
			r.Problems = append(r.Problems, dir+": "+e.String()+": "+err.Error())
			continue
		}
		r.Resources, r.Entries = r.Resources+1, r.Entries+n
	}
	return r, nil
}

// String names the resource in messages.
func (r *resource) String() string {
	return r.Kind + " " + r.Name + " of the container " + cmp.Or(r.Container, "(default)") + " on " + r.Device
}
